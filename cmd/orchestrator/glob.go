package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func globCommand(a *app) *cobra.Command {
	opts := fsops.GlobOptions{Sort: true}
	cmd := &cobra.Command{
		Use:   "glob ID PATTERN",
		Short: "Find files by name",
		Long: `Glob prints the names that match a pattern such as '**/*.go', sorted. Quote the
pattern, so that the shell leaves it alone. The exit status is 1 if no name
matches.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				printer := &render.Glob{Out: a.out, Err: a.err, JSON: a.json()}
				return printer.All(sandbox.Glob(cmd.Context(), args[1], opts))
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&opts.Limit, "max", 0, "stop after `N` names")
	flags.BoolVar(&opts.Ignore, "ignore", false, "leave out what .gitignore files exclude")
	flags.BoolVar(&opts.NoHidden, "no-hidden", false, "leave out names that begin with a dot")
	flags.StringVarP(&opts.Dir, "directory", "C", "", "start in `DIR`")
	return cmd
}
