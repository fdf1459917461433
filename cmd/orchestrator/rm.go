package main

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func rmCommand(a *app) *cobra.Command {
	var recursive, force bool
	cmd := &cobra.Command{
		Use:               "rm ID PATH...",
		Short:             "Remove files, or directories with -r",
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: a.eachPath(func(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
			err := sandbox.Remove(ctx, path)
			switch {
			case recursive && errors.Is(err, syscall.ENOTEMPTY):
				return sandbox.RemoveAll(ctx, path)
			case force && errors.Is(err, fs.ErrNotExist):
				return nil
			}
			return err
		}),
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "remove directories and everything in them")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "no error if a path does not exist")
	return cmd
}
