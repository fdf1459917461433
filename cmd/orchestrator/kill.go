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
	strays := false
	cmd := &cobra.Command{
		Use:   "kill ID EXEC...",
		Short: "Send a signal to commands in a sandbox",
		Long: `Kill sends a signal to commands in a sandbox, and to everything that they started. HUP
leaves servers in the background alone that have none of the command's standard streams.
It is an error if a command has ended already.

Strays are processes that belong to no command which the sandbox knows. Kill says how
many there are; --strays kills them, after the signals to commands, if any.
` + execIDHelp,
		Example: `  orchestrator kill job-1 6d1f9a04c2be
  orchestrator kill job-1 6d1f 93b0 -s KILL
  orchestrator kill job-1 --strays`,
		Args: func(cmd *cobra.Command, args []string) error {
			if strays {
				return takes(1, -1)(cmd, args)
			}
			return takes(2, -1)(cmd, args)
		},
		ValidArgsFunction: a.completeExecs(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.kill(cmd.Context(), args[0], args[1:], syscall.Signal(sig.Number), strays)
		},
	}
	cmd.Flags().VarP(&sig, "signal", "s", "send `SIGNAL`: its name, with or without SIG, or its number in Linux")
	cmd.Flags().BoolVar(&strays, "strays", false, "kill what belongs to no command")
	return cmd
}

// kill signals every command that it can: an error of one does not spare the others. Then
// it kills the strays, or says how many there are.
func (a *app) kill(ctx context.Context, id string, names []string, sig syscall.Signal, strays bool) error {
	var failed []error
	err := a.open(ctx, id, func(sandbox *launcher.Sandbox) error {
		for _, name := range names {
			if err := signalExec(ctx, sandbox, name, sig); err != nil {
				failed = append(failed, &sandboxError{id: id, err: err})
			}
		}
		if strays {
			return a.killStrays(ctx, sandbox)
		}
		return a.noteStrays(ctx, sandbox)
	})
	return errors.Join(append(failed, err)...)
}

func (a *app) killStrays(ctx context.Context, sandbox *launcher.Sandbox) error {
	count, err := sandbox.KillStrays(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return errors.New("the sandbox's agent is too old to know strays")
	}
	if err == nil {
		a.note("%d strays have ended", count)
	}
	return err
}

// noteStrays says how many strays there are, if any.
func (a *app) noteStrays(ctx context.Context, sandbox *launcher.Sandbox) error {
	count, err := sandbox.Strays(ctx)
	if count > 0 {
		a.note(`sandbox %s has strays, %d processes that belong to no command: "orchestrator kill %[1]s --strays" ends them`, quote(sandbox.ID), count)
	}
	return err
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
