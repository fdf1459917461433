package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func downCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "down ID...",
		Short: "End sandboxes and remove them with their files",
		Long: `Down ends everything that runs in these sandboxes and removes them with their
files. It is no error if a sandbox does not exist.`,
		Args:              takes(1, -1),
		ValidArgsFunction: a.completeIDs(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.down(cmd.Context(), args)
		},
	}
}

// down takes down every sandbox that it can: an error of one does not spare the others.
func (a *app) down(ctx context.Context, ids []string) error {
	l, err := a.launcher()
	if err != nil {
		return err
	}
	var failed []error
	for _, id := range ids {
		if err := l.Terminate(ctx, id); err != nil {
			failed = append(failed, &sandboxError{id: id, launching: true, err: err})
		}
	}
	return errors.Join(failed...)
}
