package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func waitCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "wait ID EXEC",
		Short: "Wait for the end of a command in a sandbox",
		Long: `Wait waits until a command in a sandbox has ended, and exits with the command's
status. It prints nothing; with -o json, it prints a line that says how the command
ended. When you interrupt wait, the command runs on.
` + execIDHelp + "\n\n" + exitHelp,
		Args:              takes(2, 2),
		ValidArgsFunction: a.completeExecs(false),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.open(cmd.Context(), args[0], func(sandbox *launcher.Sandbox) error {
				return a.wait(cmd.Context(), sandbox, args[1])
			})
		},
	}
}

func (a *app) wait(ctx context.Context, sandbox *launcher.Sandbox, name string) error {
	info, err := findExec(ctx, sandbox, name)
	if err != nil {
		return err
	}
	_, finish := a.connect(true)
	p, err := sandbox.Attach(ctx, info.ID, podapi.AttachOptions{NoOutput: true})
	if err == nil {
		err = p.Wait()
	}
	err = finish(p, err)
	if errors.Is(err, podapi.ErrDetached) {
		return context.Cause(ctx)
	}
	return unclear(err)
}
