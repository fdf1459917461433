package main

import (
	"context"
	"errors"
	"io"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// A starter starts a command that has these streams, or attaches to one. The id is
// empty where there is no command yet.
type starter func(streams) (id string, p *podapi.Process, err error)

// stay runs what start starts with the program's own streams, or on the console if
// that is not nil: until the command ends, or it is left running. The command reads
// from in, if that is not nil.
func (a *app) stay(ctx context.Context, sandbox *launcher.Sandbox, in io.Reader, t *console, start starter) error {
	own, finish := a.connect()
	own.in = in
	if t != nil {
		own = t.connect(own)
	}
	id, p, err := start(own)
	if err != nil {
		if ctx.Err() == nil && id != "" && errors.Is(err, podapi.ErrUnavailable) {
			a.sayWayBack(sandbox, id, false)
		}
		return err
	}
	err = finish(p, a.attend(ctx, p, t))
	detached := errors.Is(err, podapi.ErrDetached)
	if detached || err != nil && p.Status() == nil {
		a.sayWayBack(sandbox, id, detached)
	}
	if detached {
		return context.Cause(ctx)
	}
	return unclear(err)
}

// sayWayBack says how to go on with a command that runs on, or may do so.
func (a *app) sayWayBack(sandbox *launcher.Sandbox, id string, detached bool) {
	state := "may still run"
	if detached {
		state = "runs on"
	}
	a.note(`exec %s %s: "orchestrator attach %s %[1]s" goes back to it`, short(id), state, quote(sandbox.ID))
}

// attend waits for the command's end, while it has the console.
func (a *app) attend(ctx context.Context, p *podapi.Process, t *console) error {
	if t == nil {
		return p.Wait()
	}
	takeBack, err := t.lend(ctx, p)
	if err != nil {
		return errors.Join(err, p.Detach())
	}
	defer takeBack()
	err = p.Wait()
	t.settle(p.Status())
	return err
}

// unclear marks an error that is not the end of a command.
func unclear(err error) error {
	if _, ended := errors.AsType[*podapi.ExitError](err); err == nil || ended {
		return err
	}
	return &unclearError{err}
}

// connect returns the writers of a command. finish finishes the output, with what Wait
// said, or the error of a command that was not started: then p is nil.
func (a *app) connect() (own streams, finish func(p *podapi.Process, err error) error) {
	if !a.json() {
		return streams{out: a.out, err: a.err}, func(p *podapi.Process, err error) error {
			a.sayLimits(p)
			return err
		}
	}
	lines := &execLines{out: a.out}
	outLines, errLines := lines.stream("stdout"), lines.stream("stderr")
	return streams{out: outLines, err: errLines}, func(p *podapi.Process, err error) error {
		flushed := errors.Join(outLines.Flush(), errLines.Flush())
		if status := p.Status(); status != nil {
			flushed = errors.Join(flushed, lines.exit(*status))
		} else if errors.Is(err, podapi.ErrDetached) {
			flushed = errors.Join(flushed, lines.detached(p.ID(), p.Omitted()))
		}
		if flushed != nil { // an output that is not whole is no success
			return flushed
		}
		return err
	}
}

// sayLimits says which limits the command has met.
func (a *app) sayLimits(p *podapi.Process) {
	if n := p.Omitted(); n > 0 {
		a.note("%d bytes of the command's output are missing: the sandbox keeps only the last of it", n)
	}
	if status := p.Status(); status != nil && status.ProcessLimit {
		a.note("the sandbox was at its limit of processes: some could not be started")
	}
}
