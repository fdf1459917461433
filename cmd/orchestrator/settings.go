package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/settings"
)

func settingsCommand(a *app) *cobra.Command {
	var markdown bool
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "List the settings, their values and where these come from",
		Long: `A setting is a flag that you can also give in the environment or in a configuration
file. Settings lists those of all verbs with their present values, and where each
value comes from: the command line, else the environment, else the file. The file is
that of --config, or of PODAGENT_CONFIG, or podagent/config.yaml in the configuration
directory:

  image: registry.example.com/runtime:1
  heartbeat: 30s
  keep-workspace: true
  requests: {cpu: 500m, memory: 1Gi}
  label:
    team: search
  volume:
    - data/org-1:/memory
    - skills:/skills:ro

Write a value as the flag takes it. A relative path begins in the current directory.
A flag that may be repeated takes a list in the file, and a line for each value in
the environment. Lists are not joined: the first source that has one counts. Pairs can
be a map in the file. An empty variable counts as none.

Verbs ignore settings whose flags they do not have. The local backend ignores the
settings of pods and clusters.`,
		Example: `  orchestrator settings
  orchestrator settings -o json --config deploy/config.yaml`,
		Args:              takes(0, 0),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if markdown {
				_, err := fmt.Fprint(a.out, settings.Page(cmd.Root()))
				return err
			}
			return a.settings(cmd)
		},
	}
	cmd.Flags().BoolVar(&markdown, "markdown", false, "print the table of all settings as a page in Markdown, without their values")
	return cmd
}

// settings prints all settings.
func (a *app) settings(verb *cobra.Command) error {
	list, err := settings.List(verb)
	if err != nil {
		return usageError{err}
	}
	if a.json() {
		return a.settingsJSON(list)
	}
	const quoted = render.Terminal(true) // anything else would break the table
	table := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "SETTING\tVALUE\tFROM")
	for _, s := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, quoted.Text([]byte(s.Value)), quoted.Text([]byte(s.From)))
	}
	return table.Flush()
}

func (a *app) settingsJSON(list []settings.Setting) error {
	for _, s := range list {
		if err := render.JSON(a.out, s); err != nil {
			return err
		}
	}
	return nil
}
