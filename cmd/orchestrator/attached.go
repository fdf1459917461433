package main

import (
	"context"
	"errors"

	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// runAttached runs the command, or attaches to it, with the program's own streams, or on
// the console if there is one. It returns when the command has ended, or was left
// running.
func (a *app) runAttached(ctx context.Context, sandbox *launcher.Sandbox, c *podapi.Cmd, t *console.Console) error {
	finish := a.connect(c)
	t.Connect(c)
	if err := c.Start(); err != nil {
		if ctx.Err() == nil && c.ID != "" && errors.Is(err, podapi.ErrUnavailable) {
			a.sayWayBack(sandbox, c, false)
		}
		return err
	}
	if attached := len(c.Args) == 0; attached && c.Stdin != nil && !c.HasStdin() {
		a.note("exec %s takes no input: standard input is lost", short(c.ID))
	}
	err := finish(t.Wait(ctx, c))
	detached := errors.Is(err, podapi.ErrDetached)
	if detached || err != nil && c.Status() == nil {
		a.sayWayBack(sandbox, c, detached)
	}
	if detached {
		return context.Cause(ctx)
	}
	return unclear(err)
}

// sayWayBack says how to go back to a command that runs on, or may do so.
func (a *app) sayWayBack(sandbox *launcher.Sandbox, c *podapi.Cmd, detached bool) {
	state := "may still run"
	if detached {
		state = "runs on"
	}
	a.note(`exec %s %s: "orchestrator attach %s %[1]s" goes back to it`, short(c.ID), state, quote(sandbox.ID))
}

// unclear marks an error that is not the end of a command.
func unclear(err error) error {
	if _, ended := errors.AsType[*podapi.ExitError](err); err == nil || ended {
		return err
	}
	return &unclearError{err}
}

// connect gives the command its writers. finish takes the error of Wait, prints how the
// command ended, and returns the error of both.
func (a *app) connect(c *podapi.Cmd) (finish func(error) error) {
	if !a.json() {
		c.Stdout, c.Stderr = a.out, a.err
		return func(err error) error {
			a.sayLimits(c)
			return err
		}
	}
	lines := &execLines{out: a.out}
	outLines, errLines := lines.stream("stdout"), lines.stream("stderr")
	c.Stdout, c.Stderr = outLines, errLines
	return func(err error) error {
		flushed := errors.Join(outLines.Flush(), errLines.Flush())
		if status := c.Status(); status != nil {
			flushed = errors.Join(flushed, lines.exit(*status))
		} else if errors.Is(err, podapi.ErrDetached) {
			flushed = errors.Join(flushed, lines.detached(c.ID, c.Omitted()))
		}
		if flushed != nil { // output that is not whole is no success
			return flushed
		}
		return err
	}
}

// sayLimits says which limits the command has met.
func (a *app) sayLimits(c *podapi.Cmd) {
	if n := c.Omitted(); n > 0 {
		a.note("%d bytes of the command's output are missing: the sandbox keeps only the last part", n)
	}
	if status := c.Status(); status != nil && status.ProcessLimit {
		a.note("the sandbox reached its limit of processes: some could not start")
	}
}
