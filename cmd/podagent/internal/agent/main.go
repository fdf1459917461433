package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/uuid"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
)

// ExitError says how the command of Config.Main ended.
type ExitError struct {
	Name string
	// Code is the exit code, 128 plus the signal's number where a signal ended
	// the command.
	Code int
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s ended with %d", e.Name, e.Code) }

// runMain runs the command beside which the agent serves, and returns its end. It
// is a process as any other for callers, but keeps the agent from being idle by no
// more than its output, which the agent's own has, too.
func (a *Agent) runMain(ctx context.Context) error {
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

// copyLog writes the output of a process to the agent's own, and returns its end.
// A log that takes nothing for a while has it begin again where it was.
func copyLog(ctx context.Context, p *proc.Process, name string) error {
	from := proc.AttachOptions{Reader: "container"}
	for {
		err := copyLogFrom(ctx, p, name, &from)
		if !errors.Is(err, proc.ErrStalled) {
			return err
		}
	}
}

// copyLogFrom does that until the reader is detached, and keeps in from how far it
// came.
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
		_, _ = out.Write(event.Data) // a log that nobody can write ends nothing
		*at = event.Offset + int64(len(event.Data))
	}
	return ctx.Err()
}
