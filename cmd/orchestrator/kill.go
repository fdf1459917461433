package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/cmd/orchestrator/internal/flagvalue"
	"github.com/podagent/podagent/pkg/launcher"
)

func killCommand(a *app) *cobra.Command {
	sig := flagvalue.Signal{Name: "TERM", Number: 15}
	cmd := &cobra.Command{
		Use:   "kill ID EXEC...",
		Short: "Send a signal to commands in a sandbox",
		Long: `Kill sends a signal to commands in a sandbox, and to everything that they started.
It is an error if a command has ended already.
` + execIDHelp,
		Example: `  orchestrator kill job-1 6d1f9a04c2be
  orchestrator kill job-1 6d1f 93b0 -s KILL`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeExecs(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.kill(cmd.Context(), args[0], args[1:], syscall.Signal(sig.Number))
		},
	}
	cmd.Flags().VarP(&sig, "signal", "s", "send `SIGNAL`: its name, with or without SIG, or its number in Linux")
	return cmd
}

// kill signals every command that it can: an error of one does not spare the others.
func (a *app) kill(ctx context.Context, id string, names []string, sig syscall.Signal) error {
	var failed []error
	err := a.open(ctx, id, func(sandbox *launcher.Sandbox) error {
		for _, name := range names {
			if err := signalExec(ctx, sandbox, name, sig); err != nil {
				failed = append(failed, &sandboxError{id: id, err: err})
			}
		}
		return nil
	})
	return errors.Join(append(failed, err)...)
}

func signalExec(ctx context.Context, sandbox *launcher.Sandbox, name string, sig syscall.Signal) error {
	info, err := findExec(ctx, sandbox, name)
	if err != nil {
		return err
	}
	if err = sandbox.Signal(ctx, info.ID, sig); errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("exec %s (%s) has ended already", short(info.ID), briefCommand(info))
	}
	return err
}
