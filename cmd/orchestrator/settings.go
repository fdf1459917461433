package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podagent/podagent/cmd/internal/render"
)

func settingsCommand(a *app) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "List the settings, their values, and where these come from",
		Long: `Settings lists the flags, of all verbs, that the environment and the configuration
file can have, too, with the values that they have now, and where these come from:
the first of the command line, the environment and the file that has one. The
file is that of --config, or of PODAGENT_CONFIG, or podagent/config.yaml in the
configuration directory:

  image: registry.example.com/runtime:1
  heartbeat: 30s
  keep-workspace: true
  requests: {cpu: 500m, memory: 1Gi}
  label:
    team: search
  volume:
    - data/org-1:/memory
    - skills:/skills:ro

A value is what the flag takes: a relative path begins in the current directory. A
flag that may be repeated takes a list, and in the environment a line for each
value. Together they take the place of what a later source has, as one does. Pairs
can be a map. A variable that is empty is none.

A setting is for the verbs that have its flag, and those of pods for the
kubernetes backend: others ignore it.`,
		Example: `  orchestrator settings
  orchestrator settings -o json --config deploy/config.yaml`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				_, err := fmt.Fprint(a.out, settingsPage(cmd.Root()))
				return err
			}
			return a.settings(cmd)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the table of all settings as a page in Markdown, without their values")
	return cmd
}

// settings prints what each setting is.
func (a *app) settings(cmd *cobra.Command) error {
	flags := settingsOf(cmd.Root())
	config, err := a.readConfig(cmd)
	if err == nil {
		err = a.fill(flags, fromEnvironment, config.source)
	}
	if err != nil {
		return usageError{err}
	}
	if a.json() {
		return a.settingsJSON(flags)
	}
	const quoted = render.Terminal(true) // anything else would break the table
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	flags.VisitAll(func(f *pflag.Flag) {
		s := newSetting(f)
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, quoted.Text([]byte(s.Value)), quoted.Text([]byte(s.From)))
	})
	return table.Flush()
}

func (a *app) settingsJSON(flags *pflag.FlagSet) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if err == nil {
			err = render.JSON(a.out, newSetting(f))
		}
	})
	return err
}

// setting is a setting as it is printed.
type setting struct {
	Flag     string `json:"flag"`
	Variable string `json:"variable"`
	Key      string `json:"key"`
	Takes    string `json:"takes,omitempty"` // what the flag's value is called
	Default  string `json:"default,omitempty"`
	Meaning  string `json:"meaning"`
	Value    string `json:"value,omitempty"`
	From     string `json:"from"`
}

func newSetting(f *pflag.Flag) setting {
	s := setting{Flag: "--" + f.Name, Variable: variable(f.Name), Key: f.Name, From: "default"}
	s.Takes, s.Meaning = pflag.UnquoteUsage(f)
	// What a default stands for is said in the help, where it is no value.
	s.Meaning, s.Default, _ = strings.Cut(s.Meaning, " (default ")
	s.Default = strings.TrimSuffix(s.Default, ")")
	if none := []string{"", "[]"}; s.Default == "" && !slices.Contains(none, f.DefValue) {
		s.Default = f.DefValue
	}
	s.Value = s.Default
	switch {
	case f.Changed:
		s.Value, s.From = f.Value.String(), s.Flag
	case given(f):
		s.Value, s.From = strings.Join(f.Annotations[settingWas][1:], " "), givenBy(f)
	}
	return s
}

// settingsOf returns the settings of all verbs.
func settingsOf(root *cobra.Command) *pflag.FlagSet {
	settings := pflag.NewFlagSet("settings", pflag.ContinueOnError)
	var collect func(*cobra.Command)
	add := func(f *pflag.Flag) {
		if isSetting(f) && settings.Lookup(f.Name) == nil {
			settings.AddFlag(f)
		}
	}
	collect = func(cmd *cobra.Command) {
		cmd.PersistentFlags().VisitAll(add)
		cmd.LocalFlags().VisitAll(add)
		for _, verb := range cmd.Commands() {
			collect(verb)
		}
	}
	collect(root)
	return settings
}
