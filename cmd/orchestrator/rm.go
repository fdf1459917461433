package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
)

func rmCommand(a *app) *cobra.Command {
	var opts fsops.RemoveOptions
	cmd := &cobra.Command{
		Use:               "rm ID PATH...",
		Short:             "Remove files, or directories with -r",
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: a.eachPath(func(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
			return sandbox.Remove(ctx, path, opts)
		}),
	}
	cmd.Flags().BoolVarP(&opts.Recursive, "recursive", "r", false, "remove directories and everything in them")
	cmd.Flags().BoolVarP(&opts.Force, "force", "f", false, "no error if a path does not exist")
	return cmd
}
