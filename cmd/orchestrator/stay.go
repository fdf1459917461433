package main

import (
	"context"
	"errors"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// stay runs the command, which is new or attached to, with the program's own
// streams, or on the console if that is not nil: until the command ends, or it
// is left running.
func (a *app) stay(ctx context.Context, sandbox *launcher.Sandbox, c *podapi.Cmd, t *console) error {
	finish := a.connect(c)
	if t != nil {
		t.connect(c)
	}
	if err := c.Start(); err != nil {
		if ctx.Err() == nil && c.ID != "" && errors.Is(err, podapi.ErrUnavailable) {
			a.sayWayBack(sandbox, c, false)
		}
		return err
	}
	if attached := len(c.Args) == 0; attached && c.Stdin != nil && !c.HasStdin() {
		a.note("exec %s takes no input: what is passed to it is lost", short(c.ID))
	}
	err := finish(a.attend(ctx, c, t))
	detached := errors.Is(err, podapi.ErrDetached)
	if detached || err != nil && c.Status() == nil {
		a.sayWayBack(sandbox, c, detached)
	}
	if detached {
		return context.Cause(ctx)
	}
	return unclear(err)
}

// sayWayBack says how to go on with a command that runs on, or may do so.
func (a *app) sayWayBack(sandbox *launcher.Sandbox, c *podapi.Cmd, detached bool) {
	state := "may still run"
	if detached {
		state = "runs on"
	}
	a.note(`exec %s %s: "orchestrator attach %s %[1]s" goes back to it`, short(c.ID), state, quote(sandbox.ID))
}

// attend waits for the command's end, while it has the console.
func (a *app) attend(ctx context.Context, c *podapi.Cmd, t *console) error {
	if t == nil {
		return c.Wait()
	}
	takeBack, err := t.lend(ctx, c)
	if err != nil {
		return errors.Join(err, c.Detach())
	}
	defer takeBack()
	err = c.Wait()
	t.settle(c.Status())
	return err
}

// unclear marks an error that is not the end of a command.
func unclear(err error) error {
	if _, ended := errors.AsType[*podapi.ExitError](err); err == nil || ended {
		return err
	}
	return &unclearError{err}
}

// connect gives the command its writers. The function that is returned
// finishes the output, with what Wait said.
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
		if flushed != nil { // an output that is not whole is no success
			return flushed
		}
		return err
	}
}

// sayLimits says which limits the command has met.
func (a *app) sayLimits(c *podapi.Cmd) {
	if n := c.Omitted(); n > 0 {
		a.note("%d bytes of the command's output are missing: the sandbox keeps only the last of it", n)
	}
	if status := c.Status(); status != nil && status.ProcessLimit {
		a.note("the sandbox was at its limit of processes: some could not be started")
	}
}
