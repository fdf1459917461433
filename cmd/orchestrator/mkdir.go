package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func mkdirCommand(a *app) *cobra.Command {
	var parents bool
	cmd := &cobra.Command{
		Use:               "mkdir ID PATH...",
		Short:             "Make directories",
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeIDs(false),
		RunE: a.eachPath(func(ctx context.Context, sandbox *launcher.Sandbox, path string) error {
			if parents {
				return sandbox.MkdirAll(ctx, path, 0o777)
			}
			return sandbox.Mkdir(ctx, path, 0o777)
		}),
	}
	cmd.Flags().BoolVarP(&parents, "parents", "p", false, "make missing parents; no error if the directory exists")
	return cmd
}
