package main

import (
	"cmp"
	"context"
	"errors"
	"io"

	"github.com/podagent/podagent/cmd/internal/render"
	"github.com/podagent/podagent/cmd/orchestrator/internal/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// A starter starts a command with these streams, or attaches to one. The id is empty if
// there is no command yet.
type starter func(console.Streams) (id string, p *podapi.Process, err error)

// runAttached runs the command that start starts, with the program's own streams,
// or on the console if there is one. The command reads from in, unless that is nil.
// It returns when the command has ended or was left running.
func (a *app) runAttached(ctx context.Context, sandbox *launcher.Sandbox, in io.Reader, t *console.Console, start starter) error {
	own, finish := a.connect(a.raw || t != nil)
	own.In = in
	id, p, err := start(t.Connect(own))
	if err != nil {
		if ctx.Err() == nil && id != "" && errors.Is(err, podapi.ErrUnavailable) {
			a.sayWayBack(sandbox, id, false)
		}
		return err
	}
	err = finish(p, t.Wait(ctx, p))
	detached := errors.Is(err, podapi.ErrDetached)
	if detached || err != nil && p.Status() == nil {
		a.sayWayBack(sandbox, id, detached)
	}
	if detached {
		return context.Cause(ctx)
	}
	return unclear(err)
}

// sayWayBack says how to return to a command that still runs, or may do so.
func (a *app) sayWayBack(sandbox *launcher.Sandbox, id string, detached bool) {
	state := "may still run"
	if detached {
		state = "runs on"
	}
	a.note(`exec %s %s: "orchestrator attach %s %[1]s" goes back to it`, short(id), state, quote(sandbox.ID))
}

// unclear marks an error that is not the end of a command.
func unclear(err error) error {
	if _, ended := errors.AsType[*podapi.ExitError](err); err == nil || ended {
		return err
	}
	return &unclearError{err}
}

// connect returns the writers of a command. finish takes the error of Wait, prints how
// the command ended, and returns the error of both. For a command that did not start, p
// is nil. If raw is set, the output may control the terminal.
func (a *app) connect(raw bool) (own console.Streams, finish func(p *podapi.Process, err error) error) {
	if !a.json() {
		stdout, endOut := render.ProgramText(a.out, raw)
		stderr, endErr := render.ProgramText(a.err, raw)
		return console.Streams{Out: stdout, Err: stderr}, func(p *podapi.Process, err error) error {
			ended := errors.Join(endOut(), endErr())
			a.sayLimits(p)
			return cmp.Or(err, ended)
		}
	}
	lines := &execLines{out: a.out}
	outLines, errLines := lines.stream("stdout"), lines.stream("stderr")
	return console.Streams{Out: outLines, Err: errLines}, func(p *podapi.Process, err error) error {
		flushed := errors.Join(outLines.Flush(), errLines.Flush())
		if status := p.Status(); status != nil {
			flushed = errors.Join(flushed, lines.exit(*status))
		} else if errors.Is(err, podapi.ErrDetached) {
			flushed = errors.Join(flushed, lines.detached(p.ID(), p.Omitted()))
		}
		if flushed != nil { // incomplete output is a failure
			return flushed
		}
		return err
	}
}

// sayLimits says which limits the command has hit.
func (a *app) sayLimits(p *podapi.Process) {
	if n := p.Omitted(); n > 0 {
		a.note("%d bytes of the command's output are missing: the sandbox keeps only the last part", n)
	}
	if status := p.Status(); status != nil && status.ProcessLimit {
		a.note("the sandbox reached its limit of processes: some could not start")
	}
}
