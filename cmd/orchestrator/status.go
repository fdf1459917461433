package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/remote"
	"github.com/podagent/podagent/pkg/podapi"
)

// The exit statuses of the orchestrator itself. Those about commands are the same
// as in docker and timeout(1), so that scripts know them.
const (
	exitFailed        = 1   // an operation failed, or a search found nothing
	exitTimedOut      = 124 // a command ran into its timeout
	exitTrouble       = 125 // the command line, podagent or the connection to it is at fault
	exitNotExecutable = 126
	exitNotThere      = 127
)

const exitHelp = `Exit status:
  exec, run, shell, attach and wait exit with the status of the command, or with
  128 plus the number of the signal that ended it. Otherwise:
    0    the operation succeeded, or the detach keys left the command running
    1    the operation failed, or the search found nothing
    2    the search failed, for some files or all
    124  the command ran into its timeout
    125  the command line was wrong, or podagent or the connection to it failed
    126  the command cannot be executed
    127  the command does not exist
    130  interrupted (143: terminated); exec, run and shell have killed the command
`

// A usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// A sandboxError is an error about a sandbox, or of an operation in it.
type sandboxError struct {
	id string
	// launching says that the launcher failed, so that there is no connection to the
	// sandbox.
	launching bool
	err       error
}

func (e *sandboxError) Error() string { return e.err.Error() }
func (e *sandboxError) Unwrap() error { return e.err }

// An unclearError says that it is unknown how a command ended, or that its output
// could not be written.
type unclearError struct{ error }

func (e *unclearError) Unwrap() error { return e.error }

// A servingError says that this program cannot serve the way out of a sandbox. The command
// that needs it has not run.
type servingError struct{ error }

func (e *servingError) Unwrap() error { return e.error }

// A localError is an error about a file on this machine.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// local marks err, if it is not nil, as an error of this machine.
func local(err error) error {
	if err == nil {
		return nil
	}
	return &localError{err}
}

// exitStatus returns the program's exit status for the outcome err.
func exitStatus(ctx context.Context, err error) int {
	if s := interruption(ctx, err); s != 0 {
		return console.ExitStatus(s)
	}
	if exit, ok := errors.AsType[*podapi.ExitError](err); ok {
		return commandStatus(exit.ExitStatus)
	}
	if program, ok := errors.AsType[*programError](err); ok {
		return program.status
	}
	switch {
	case err == nil:
		return 0
	case isStart(err):
		return startStatus(err)
	case isTrouble(err):
		return exitTrouble
	case render.SearchFailed(err):
		return render.ExitSearchFailed
	}
	return exitFailed
}

// interruption returns the signal that caused err; 0 if none did.
func interruption(ctx context.Context, err error) syscall.Signal {
	cause, ok := errors.AsType[*console.SignalError](context.Cause(ctx))
	switch {
	case errors.Is(err, syscall.EPIPE):
		return syscall.SIGPIPE
	case ok && (errors.Is(err, context.Canceled) || errors.Is(err, cause)):
		return cause.Signal
	}
	return 0
}

func commandStatus(s podapi.ExitStatus) int {
	switch s.Reason {
	case podapi.TimedOut:
		return exitTimedOut
	case podapi.AgentLost:
		return exitTrouble
	}
	return s.Code
}

// isStart reports whether err says that a command could not be started.
func isStart(err error) bool {
	e, ok := errors.AsType[*fs.PathError](err)
	return ok && e.Op == "exec" && !isTrouble(err)
}

// notExecutable are the errors that the command's file causes. Other errors have
// other causes, such as a lack of processes in the sandbox.
var notExecutable = []error{fs.ErrPermission, syscall.ENOEXEC, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP}

func startStatus(err error) int {
	if errors.Is(err, fs.ErrNotExist) {
		return exitNotThere
	}
	for _, e := range notExecutable {
		if errors.Is(err, e) {
			return exitNotExecutable
		}
	}
	return exitTrouble
}

// troubles are the errors that are not the sandbox's answer to a request.
var troubles = []error{
	podapi.ErrUnavailable, podapi.ErrCut, podapi.ErrProtocol, podapi.ErrAgentLost, podapi.ErrConflict,
	podapi.ErrExecExpired, podapi.ErrStalled, podapi.ErrUnauthenticated,
	podapi.ErrTooLarge, podapi.ErrVersion,
	launcher.ErrNotFound, launcher.ErrNoAgent, launcher.ErrEgress,
	context.Canceled, context.DeadlineExceeded,
}

func isTrouble(err error) bool {
	if sandbox, ok := errors.AsType[*sandboxError](err); ok && sandbox.launching {
		return true
	}
	if chdir, ok := errors.AsType[*fs.PathError](err); ok && chdir.Op == "chdir" {
		return true
	}
	for _, t := range troubles {
		if errors.Is(err, t) {
			return true
		}
	}
	return errors.As(err, new(*launcher.PodError)) || errors.As(err, new(*remote.Error)) || errors.As(err, new(*preflightError)) || errors.As(err, new(usageError)) || errors.As(err, new(*unclearError)) || errors.As(err, new(*servingError))
}

// report prints each failure as a line on stderr, unless it is only the exit status
// of a command.
func report(ctx context.Context, stderr io.Writer, err error) {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range several.Unwrap() {
			report(ctx, stderr, err)
		}
		return
	}
	if err == nil || errors.Is(err, render.ErrNothing) || errors.Is(err, render.ErrIncomplete) || interruption(ctx, err) != 0 {
		return
	}
	if errors.As(err, new(*programError)) {
		return // it has said what there is to say
	}
	if exit, ok := errors.AsType[*podapi.ExitError](err); ok {
		switch exit.Reason {
		case podapi.Exited, podapi.Signalled:
			return
		}
	}
	fmt.Fprintf(stderr, "orchestrator: %s\n", render.IsTerminal(stderr).Text([]byte(explain(err))))
}
