package main

import (
	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func mvCommand(a *app) *cobra.Command {
	var noClobber bool
	cmd := &cobra.Command{
		Use:   "mv ID OLD NEW",
		Short: "Rename a file or a directory",
		Long: `Mv renames a file or a directory within its file system. NEW is always the full
new name: mv moves nothing into a directory of that name.`,
		Args:              takes(3, 3),
		ValidArgsFunction: a.completeIDs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				if noClobber {
					return sandbox.RenameNoReplace(cmd.Context(), args[1], args[2])
				}
				return sandbox.Rename(cmd.Context(), args[1], args[2])
			})
		},
	}
	cmd.Flags().BoolVar(&noClobber, "no-clobber", false, "fail if the new name exists")
	return cmd
}
