package podapi

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/podagent/podagent/internal/delay"
)

// A run kills its process with a separate call, not with its stream. While the
// agent starts the process it reads nothing from the stream, and unread messages
// are lost when the run gives the stream up. The call reaches the agent at any
// time: before the start has arrived, during the start, and later.

// kill makes the agent kill the process, and ends the run within KillGrace.
func (p *Process) kill() {
	first, asked := p.control.wantKill()
	switch {
	case !first:
	case !asked:
		p.giveUp() // the agent knows nothing of it
	default:
		p.abandonLater()
		p.hurry()
		go p.insist()
	}
}

// insist asks the agent to kill the process until the agent has answered, or for
// killLinger. The run may have ended meanwhile.
func (p *Process) insist() {
	defer close(p.killed)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), killLinger)
	defer cancel()
	err := p.client.Signal(ctx, p.id, syscall.SIGKILL)
	for try := 1; errors.Is(err, ErrUnavailable) && p.mayRun(ctx); try++ {
		delay.For(ctx, resumeDelay(try))
		err = p.client.Signal(ctx, p.id, syscall.SIGKILL)
	}
	gone := errors.Is(err, fs.ErrNotExist)
	if gone && !p.control.isAnswered() {
		p.giveUp() // it does not run, and will not
	}
	if !gone && !errors.Is(err, os.ErrProcessDone) {
		p.unkilled = err
	}
}

// mayRun reports whether there is still a process to be killed, and a way to do so.
func (p *Process) mayRun(ctx context.Context) bool {
	return ctx.Err() == nil && !p.client.closed.Load() && p.Status() == nil
}

// errKillUnanswered says that nobody knows yet whether a process was killed.
var errKillUnanswered = errors.New("the agent has not confirmed the kill")

// mayRunOn returns why a process that was to be killed may still run after the end
// of the run; nil if it cannot.
func (p *Process) mayRunOn() error {
	if p.status != nil || !p.control.killing() {
		return nil
	}
	select {
	case <-p.killed:
		return p.unkilled
	default:
		return errKillUnanswered
	}
}

// awaitKill waits until the agent has killed a process that is to be killed, or the
// run is given up.
func (p *Process) awaitKill() {
	if !p.control.killing() {
		return
	}
	select {
	case <-p.killed:
	case <-p.life.Done():
	}
}
