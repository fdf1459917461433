package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

func killCommand(a *app) *cobra.Command {
	sig := linuxSignal{"TERM", 15}
	cmd := &cobra.Command{
		Use:   "kill ID EXEC...",
		Short: "Send a signal to commands in a sandbox",
		Long: `Kill sends a signal to commands in a sandbox, and to everything that they started.
That a command has ended already is an error.
` + execIDHelp,
		Example: `  orchestrator kill job-1 6d1f9a04c2be
  orchestrator kill job-1 6d1f 93b0 -s KILL`,
		Args:              takes(2, -1),
		ValidArgsFunction: a.completeExecs(true),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.kill(cmd.Context(), args[0], args[1:], syscall.Signal(sig.number))
		},
	}
	cmd.Flags().VarP(&sig, "signal", "s", "send `SIGNAL`: a name, with or without SIG, or a number of Linux")
	return cmd
}

// kill signals what it can: one command that cannot be signalled does not save
// others.
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

// linuxSignal is a flag for a signal of Linux, whatever this system's are.
type linuxSignal struct {
	text   string
	number int
}

// linuxSignals are the names of the signals of Linux on amd64 and arm64, in the
// order of their numbers from 1 (signal(7)).
var linuxSignals = strings.Fields(`HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT
	CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS`)

// lastSignal is the highest number of a real-time signal.
const lastSignal = 64

func (s *linuxSignal) String() string { return s.text }
func (s *linuxSignal) Type() string   { return "SIGNAL" }

func (s *linuxSignal) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil && n >= 1 && n <= lastSignal {
		s.text, s.number = text, n
		return nil
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for i, known := range linuxSignals {
		if name == known {
			s.text, s.number = name, i+1
			return nil
		}
	}
	return fmt.Errorf("it is neither the name of a signal nor a number from 1 to %d", lastSignal)
}
