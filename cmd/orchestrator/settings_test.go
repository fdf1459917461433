package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
)

// verbs calls visit for each command.
func verbs(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, verb := range cmd.Commands() {
		verbs(verb, visit)
	}
}

func TestASettingMeansTheSameForAllVerbs(t *testing.T) {
	root := rootCommand(&app{})
	all := settings.Of(root)
	verbs(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			s := all.Lookup(f.Name)
			if settings.IsSetting(f) && (s.Usage != f.Usage || s.DefValue != f.DefValue) {
				t.Errorf("--%s of %s differs from other commands: %s", f.Name, cmd.CommandPath(), f.Usage)
			}
		})
	})
}

func TestFlagsThatDescribeSandboxesAreSettings(t *testing.T) {
	root := rootCommand(&app{})
	// help belongs to one call, and id has its own row in the table.
	exceptions := map[string][]string{"up": {"help"}, "mcp": {"help", "id"}}
	for verb, names := range exceptions {
		cmd, _, err := root.Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !settings.IsSetting(f) && !slices.Contains(names, f.Name) {
				t.Errorf("--%s of %s is not a setting", f.Name, verb)
			}
		})
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !settings.IsSetting(f) && f.Name != "config" {
			t.Errorf("--%s is not a setting", f.Name)
		}
	})
}

// The help of a flag that accumulates values must say so: lists in the environment
// and in the file depend on it.
func TestFlagsThatMayBeRepeatedSaySo(t *testing.T) {
	examples := map[string][2]string{
		"KEY=VALUE": {"a=1", "b=2"}, "NAME=VALUE": {"A=1", "B=2"}, "NAME=EXECUTABLE": {"a=/a", "b=/b"},
		"CLAIM[/SUBPATH]:DIR[:ro]": {"a:/a", "b:/b"},
	}
	settings.Of(rootCommand(&app{})).VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		values, ok := examples[name]
		if !ok {
			values = [2]string{"/first", "/second"}
		}
		if f.Value.Set(values[0]) != nil || f.Value.Set(values[1]) != nil {
			return // it takes none of these, so it is not a list of strings
		}
		text := f.Value.String()
		keepsBoth := strings.Contains(text, values[0]) && strings.Contains(text, values[1])
		if saysSo := strings.HasSuffix(f.Usage, "may be repeated"); keepsBoth != saysSo {
			t.Errorf("--%s keeps both of %q: %v, its help: %s", f.Name, values, keepsBoth, f.Usage)
		}
	})
}

func TestSettingsPageMatchesTheFlags(t *testing.T) {
	t.Setenv("PODAGENT_IMAGE", "") // otherwise it would become the default of --image
	page, err := os.ReadFile("SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings.Page(rootCommand(&app{})), string(page)); diff != "" {
		t.Errorf("SETTINGS.md is out of date: run make generate (-want +got):\n%s", diff)
	}
}
