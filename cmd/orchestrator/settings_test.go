package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settledFlags returns the flags of a verb as they are when it runs: with these
// arguments, variables and this configuration file, which is "config.yaml" in
// errors.
func settledFlags(t *testing.T, verb, args, config string, env map[string]string) (*pflag.FlagSet, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("config.yaml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PODAGENT_CONFIG", "config.yaml")
	for name, value := range env {
		t.Setenv(name, value)
	}
	a := &app{streams: streams{nil, io.Discard, io.Discard}}
	cmd, _, err := rootCommand(a).Find([]string{verb})
	if err == nil {
		err = cmd.ParseFlags(strings.Fields(args))
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Flags(), a.settle(cmd)
}

func TestFlagThenEnvironmentThenFileThenDefault(t *testing.T) {
	const config = "image: file\nprofile: baseline\nheartbeat: off\nlabel: {from: file, more: x}\nenv:\n  - FROM=file\n"
	flags, err := settledFlags(t, "up", "--image flag --label from=flag", config, map[string]string{
		"PODAGENT_IMAGE": "env", "PODAGENT_HEARTBEAT": "30s", "PODAGENT_LABEL": "from=env\nmore=y", "PODAGENT_PROFILE": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, name := range []string{"image", "heartbeat", "profile", "label", "env", "on-drift"} {
		f := flags.Lookup(name)
		got[name] = f.Value.String() + " by " + givenBy(f)
	}
	want := map[string]string{
		"image": "flag by --image", "label": "from=flag by --label",
		"heartbeat": "30s by PODAGENT_HEARTBEAT",
		"profile":   "baseline by config.yaml:2: profile", "env": "FROM=file by config.yaml:5: env",
		"on-drift": "say by --on-drift",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValuesInTheFileAreThoseOfTheFlags(t *testing.T) {
	for _, tt := range []struct{ flag, config, want string }{
		{"heartbeat", "heartbeat: off", "off"},
		{"log-level", "log-level: off", "off"},
		{"keep-workspace", "keep-workspace: true", "true"},
		{"workdir", `workdir: "/a b"`, "/a b"},
		{"service-account", "service-account: 010", "010"},
		{"label", "label: {a: 010, b: \"\", c: off}", "a=010,b=,c=off"},
		{"label", "label:\n- a=b,c\n- d=e", "a=b,c,d=e"},
		{"label", "label: a=b", "a=b"},
		{"env", "env: [A=1, 'B=x y']", "A=1 B=x y"},
		{"requests", "requests: {cpu: 1.50, memory: 1Gi}", "cpu=1500m,memory=1Gi"},
		{"requests", "requests: cpu=2,memory=1Gi", "cpu=2,memory=1Gi"},
		{"main", "main: npm start", "npm start"},
		{"main", "main: [npm, run, a b]", "npm run a b"},
		{"volume", "volume: [data/x:/a, data/y:/b:ro]", "data/x:/a data/y:/b:ro"},
		{"limits", "requests: &r {cpu: 1}\nlimits: *r", "cpu=1"},
		{"image", "# nothing\n", ""},
		{"image", "---\n", ""},
	} {
		t.Run(tt.config, func(t *testing.T) {
			flags, err := settledFlags(t, "up", "", tt.config, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := flags.Lookup(tt.flag).Value.String(); got != tt.want {
				t.Errorf("%s is %q, want %q", tt.flag, got, tt.want)
			}
		})
	}
}

func TestErrorsNameTheFileTheLineAndTheKey(t *testing.T) {
	for config, want := range map[string]string{
		"\nhearbeat: 1s":            `config.yaml:2: hearbeat is no setting`,
		"config: other.yaml":        `config.yaml:1: config is no setting`,
		"rm: true":                  `config.yaml:1: rm is no setting`,
		"image: a\nimage: b":        `config.yaml:2: image is there twice`,
		"heartbeat: soon":           `config.yaml:1: heartbeat: invalid argument "soon": it is neither`,
		"keep-workspace: [true]":    `config.yaml:1: keep-workspace: it is a list, and --keep-workspace takes one value`,
		"image:\n- a":               `config.yaml:1: image: it is a list`,
		"workdir: {a: b}":           `config.yaml:1: workdir: it is a map, and --workdir takes none`,
		"volume: {a: b}":            `config.yaml:1: volume: it is a map`,
		"keep-workspace: sometimes": `config.yaml:1: keep-workspace: invalid argument "sometimes"`,
		"image:":                    `config.yaml:1: image: it is blank`,
		`image: " "`:                `config.yaml:1: image: it is blank`,
		"label: {a: }":              `config.yaml:1: label: a has no single value`,
		"label:\n- [a]":             `config.yaml:1: label: line 2 is no single value`,
		"label: [a]":                `config.yaml:1: label: invalid argument "a": it is not KEY=VALUE`,
		"image: a\n---\nimage: b":   `config.yaml: there is more than one document`,
		"- image":                   `config.yaml:1: it has no keys`,
		"image: [":                  `config.yaml: yaml: line 1`,
		"requests: {cpu: much}":     `config.yaml:1: requests: invalid argument "cpu=much": "much" is not a quantity`,
	} {
		t.Run(config, func(t *testing.T) {
			_, err := settledFlags(t, "up", "", config, nil)
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestVerbsIgnoreSettingsThatAreNotTheirs(t *testing.T) {
	// Not even that it is wrong matters.
	if _, err := settledFlags(t, "list", "", "heartbeat: soon", map[string]string{"PODAGENT_VOLUME": "nonsense"}); err != nil {
		t.Error(err)
	}
	flags, err := settledFlags(t, "up", "--backend local", "heartbeat: soon\nworkdir: /w", map[string]string{"PODAGENT_FILE": "/nowhere", "PODAGENT_NAMESPACE": "x"})
	if err != nil {
		t.Fatal(err)
	}
	if given(flags.Lookup("namespace")) || flags.Lookup("workdir").Value.String() != "/w" {
		t.Error("settings of pods are not ignored, or others are")
	}
}

func TestBackendOfTheFlagSaysWhichSettingsAreIgnored(t *testing.T) {
	for args, want := range map[string]bool{"": false, "--backend kubernetes": true} {
		flags, err := settledFlags(t, "up", args, "backend: local\nimage: x", nil)
		if err != nil || given(flags.Lookup("image")) != want {
			t.Errorf("with %q: the image is given: %v, %v", args, !want, err)
		}
	}
}

func TestSettingsThatExcludeEachOther(t *testing.T) {
	for _, tt := range []struct{ args, config, env, want string }{
		{"--in-cluster", "kubeconfig: file\ncontext: c", "", "<nil>"},
		{"--kubeconfig flag", "", "PODAGENT_IN_CLUSTER=true", "<nil>"},
		{"", "in-cluster: true", "PODAGENT_CONTEXT=c", "<nil>"},
		{"", "in-cluster: false\nkubeconfig: file", "", "<nil>"},
		{"--identity a", "identity-secret: b", "", "<nil>"},
		{"", "in-cluster: true\nkubeconfig: file", "", "config.yaml:1: in-cluster and config.yaml:2: kubeconfig exclude each other"},
		{"--in-cluster --context c", "", "", "--in-cluster and --context exclude each other"},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			env := map[string]string{}
			if name, value, ok := strings.Cut(tt.env, "="); ok {
				env[name] = value
			}
			flags, err := settledFlags(t, "list", tt.args, tt.config, env)
			if err != nil {
				t.Fatal(err)
			}
			if err := (&clusterFlags{flags: flags}).check(); fmt.Sprint(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestConfigurationFileThatCannotBeRead(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxConfig+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, env, want string }{
		{"--config nowhere", "", "cannot read the configuration file (--config): open nowhere: no such file"},
		{"", "nowhere", "cannot read the configuration file (PODAGENT_CONFIG): open nowhere: no such file"},
		{"--config .", "", "cannot read the configuration file (--config): read .: is a directory"},
		{"--config " + large, "", "cannot read the configuration file (--config): " + large + " is larger than 1 MiB"},
		{"--config=", "", "--config must not be blank"},
		{"--config /dev/null", "nowhere", ""},
	} {
		_, err := settledFlags(t, "list", tt.args, "", map[string]string{"PODAGENT_CONFIG": tt.env})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

func TestDefaultConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	noFile := map[string]string{"PODAGENT_CONFIG": ""}
	if _, err := settledFlags(t, "list", "", "", noFile); err != nil {
		t.Errorf("there is none: %v", err)
	}
	path := filepath.Join(dir, "podagent", "config.yaml")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("namespace: mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	flags, err := settledFlags(t, "list", "", "", noFile)
	if got := flags.Lookup("namespace").Value.String(); err != nil || got != "mine" {
		t.Errorf("the namespace is %q, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("namspace: mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := settledFlags(t, "list", "", "", noFile); err == nil || !strings.HasPrefix(err.Error(), path+":1: namspace is no setting") {
		t.Errorf("a wrong key: %v", err)
	}
}

// verbs calls visit for each command.
func verbs(cmd *cobra.Command, visit func(*cobra.Command)) {
	visit(cmd)
	for _, verb := range cmd.Commands() {
		verbs(verb, visit)
	}
}

func TestASettingMeansTheSameForAllVerbs(t *testing.T) {
	root := rootCommand(&app{})
	settings := settingsOf(root)
	verbs(root, func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			s := settings.Lookup(f.Name)
			if isSetting(f) && (s.Usage != f.Usage || s.DefValue != f.DefValue) {
				t.Errorf("--%s of %s is another than elsewhere: %s", f.Name, cmd.CommandPath(), f.Usage)
			}
		})
	})
}

func TestFlagsOfWhereAndHowSandboxesRunAreSettings(t *testing.T) {
	root := rootCommand(&app{})
	// What is said anew each time, and what the table has as a row of its own.
	exceptions := map[string][]string{"up": {"help"}, "mcp": {"help", "id"}}
	for verb, names := range exceptions {
		cmd, _, err := root.Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !isSetting(f) && !slices.Contains(names, f.Name) {
				t.Errorf("--%s of %s is no setting", f.Name, verb)
			}
		})
	}
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !isSetting(f) && f.Name != "config" {
			t.Errorf("--%s is no setting", f.Name)
		}
	})
}

// A flag that adds a value each time says so, since lists in the environment and
// in the file go by it.
func TestFlagsThatMayBeRepeatedSaySo(t *testing.T) {
	examples := map[string][2]string{
		"KEY=VALUE": {"a=1", "b=2"}, "NAME=VALUE": {"A=1", "B=2"}, "NAME=EXECUTABLE": {"a=/a", "b=/b"},
		"CLAIM[/SUBPATH]:DIR[:ro]": {"a:/a", "b:/b"},
	}
	settingsOf(rootCommand(&app{})).VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		values, ok := examples[name]
		if !ok {
			values = [2]string{"/first", "/second"}
		}
		if f.Value.Set(values[0]) != nil || f.Value.Set(values[1]) != nil {
			return // it takes none of these, and is no list of texts
		}
		text := f.Value.String()
		keepsBoth := strings.Contains(text, values[0]) && strings.Contains(text, values[1])
		if keepsBoth != isRepeated(f) {
			t.Errorf("--%s keeps both of %q: %v, its help: %s", f.Name, values, keepsBoth, f.Usage)
		}
	})
}

func TestSettingsPageIsThatOfTheFlags(t *testing.T) {
	t.Setenv("PODAGENT_IMAGE", "") // which would be the default of --image
	page, err := os.ReadFile("SETTINGS.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settingsPage(rootCommand(&app{})), string(page)); diff != "" {
		t.Errorf("SETTINGS.md is out of date: run make generate (-want +got):\n%s", diff)
	}
}
