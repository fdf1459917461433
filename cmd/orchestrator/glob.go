package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/pkg/launcher"
)

func globCommand(a *app) *cobra.Command {
	var options render.GlobFlags
	cmd := &cobra.Command{
		Use:   "glob ID PATTERN",
		Short: "Find files by name",
		Long: `Glob prints the names that match a pattern such as '**/*.go', sorted. Quote the
pattern, so that the shell leaves it alone. At the end it lists the directories that
it could not search. The exit status is 0 if a name matches, 1 if none does, and 2 if
a directory could not be searched.`,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				opts := options.Options()
				printer := options.Printer(a.out, a.err, a.json(), &opts)
				return printer.All(sandbox.Glob(cmd.Context(), args[1], opts))
			})
		},
	}
	options.Define(searchFlags{cmd.Flags()})
	return cmd
}
