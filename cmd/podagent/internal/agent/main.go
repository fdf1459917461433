package agent

import (
	"context"
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
	for event, err := range p.Attach(ctx, proc.AttachOptions{Reader: "container"}) {
		if err != nil {
			return err
		}
		if event.Status != nil {
			return &ExitError{a.config.Main[0], event.Status.Code}
		}
		out := os.Stdout
		if event.Stream == proc.Stderr {
			out = os.Stderr
		}
		_, _ = out.Write(event.Data) // a log that nobody can write ends nothing
	}
	return ctx.Err()
}
