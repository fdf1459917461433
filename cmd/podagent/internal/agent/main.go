package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
)

// ExitError says how the command of Config.Main ended, or without a name the agent that runs isolated.
type ExitError struct {
	Name string
	// Code is the exit code, 128 plus the signal's number where a signal ended
	// the command.
	Code int
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s ended with %d", e.Name, e.Code) }

// runMain runs the command of Config.Main, and returns its end. For callers it is a
// process like any other, but it does not keep the agent from being idle. Its output
// also goes to the agent's own.
func (a *Agent) runMain(ctx context.Context) error {
	if err := a.checkpoints.settle(ctx); err != nil { // it may use files
		return err
	}
	env, err := a.environment(nil, false, false)
	if err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	p, _, err := a.processes.Start(ctx, proc.Spec{ID: id.String(), Argv: a.config.Main, Dir: a.config.Workdir, Env: env, Aside: true})
	if err != nil {
		return err
	}
	return copyLog(ctx, p, a.config.Main[0])
}

// copyLog writes the output of a process to the agent's own, and returns its end. If
// the agent's output was blocked for so long that the reader was detached, copyLog
// attaches again where it was.
func copyLog(ctx context.Context, p *proc.Process, name string) error {
	from := proc.AttachOptions{Reader: "container"}
	for {
		err := copyLogFrom(ctx, p, name, &from)
		if !errors.Is(err, proc.ErrStalled) {
			return err
		}
	}
}

// copyLogFrom is copyLog until the reader is detached. It keeps its offsets in from.
func copyLogFrom(ctx context.Context, p *proc.Process, name string, from *proc.AttachOptions) error {
	for event, err := range p.Attach(ctx, *from) {
		if err != nil {
			return err
		}
		if event.Status != nil {
			return &ExitError{name, event.Status.Code}
		}
		out, at := os.Stdout, &from.Stdout
		if event.Stream == proc.Stderr {
			out, at = os.Stderr, &from.Stderr
		}
		_, _ = out.Write(event.Data) // a log that fails must not end the command
		*at = event.Offset + int64(len(event.Data))
	}
	return ctx.Err()
}
