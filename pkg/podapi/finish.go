package podapi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"

	"github.com/podagent/podagent/internal/delay"
)

// fail ends the run because its output cannot be delivered.
func (p *Process) fail(err error) {
	if p.life.Err() != nil {
		return // it was given up, and its pipes closed
	}
	p.failing.Do(func() {
		p.failed = err
		p.part(errors.Is(err, ErrDetached))
	})
}

// part ends the run within KillGrace, because nobody needs it any more. It kills a
// process that was started for the run, unless it stays or the caller has detached; another
// process keeps running.
func (p *Process) part(stays bool) {
	switch {
	case p.attach == nil && !stays && !p.control.detaching():
		p.kill()
	case p.control.isAnswered():
		p.leaveRunning()
	default:
		p.giveUp()
	}
}

// leaveRunning ends the run within KillGrace, but not the process. It reports
// whether there is a connection.
func (p *Process) leaveRunning() bool {
	p.abandonLater()
	defer p.hurry()
	return p.control.wantDetach(p.detachApart)
}

// detachApart detaches by calls of their own from the process of a stream whose request side
// is closed. Each takes the stream's place, and so ends it; but the agent may take up the
// stream a little later than the call, and then another call is needed.
func (p *Process) detachApart(from *execStream) {
	for tries := 1; p.control.uses(from) && p.life.Err() == nil; tries++ {
		p.tryDetach()
		delay.For(p.life, resumeDelay(tries))
	}
}

// tryDetach is one call that detaches. The little output that it gets is of no use.
func (p *Process) tryDetach() {
	s, err := p.dial(p.life)
	if err != nil {
		return
	}
	defer s.hangUp()
	attach := &pb.ExecAttach{ExecId: p.id, BootId: p.started.BootId, Reader: p.reader}
	err = s.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Attach{Attach: attach}})
	if err == nil {
		err = s.send(&pb.ExecRequest{Kind: &pb.ExecRequest_Detach{Detach: &pb.ExecDetach{}}})
	}
	for err == nil { // until the call ends
		_, err = s.call.Recv()
	}
}

// abandonLater gives the run up if it has not ended in KillGrace.
func (p *Process) abandonLater() {
	timer := time.AfterFunc(KillGrace, func() {
		p.giveUp()
		p.closePipes() // a pipe without a reader would hold the run up
	})
	context.AfterFunc(p.life, func() { timer.Stop() })
}

// conclude notes how the run has ended: by a final message, or by err.
func (p *Process) conclude(final *pb.ExecResponse, err error) {
	exit := final.GetExit()
	if short := p.output.finish(exit); err == nil {
		err = short
	}
	p.omitted = p.output.omitted
	switch {
	case exit != nil && err == nil:
		status, _ := exitStatusFromProto(exit) // receive has checked it
		status.Omitted = p.omitted
		p.status = &status
	case err == nil || p.control.detaching() && !errors.Is(err, ErrAgentLost):
		p.detached, err = true, ErrDetached
	case errors.Is(err, ErrAgentLost):
		p.status = &ExitStatus{
			Reason: AgentLost, Code: -1, Omitted: p.omitted,
			Stdout: p.output.next[0], Stderr: p.output.next[1],
		}
	}
	p.err = p.result(err)
}

// result returns what Wait returns for a run that ended by err, or, if err is nil,
// with a status.
func (p *Process) result(err error) error {
	ctxErr := p.ctx.Err()
	switch late := p.overdue.Load(); {
	case late != nil && p.status == nil && ctxErr == nil:
		return p.wrap(*late)
	case p.failed != nil && ctxErr == nil:
		return fmt.Errorf("writing the output of %s: %w", p.name, p.failed)
	case p.detached && ctxErr != nil:
		return fmt.Errorf("%w: %w", ErrDetached, ctxErr)
	case p.detached:
		return ErrDetached
	case err != nil && ctxErr != nil:
		return &fs.PathError{Op: p.op, Path: p.name, Err: ctxErr}
	case err != nil:
		return p.wrap(err)
	case !p.status.Success() && p.attach != nil: // nobody killed it for the context's sake
		return &ExitError{ExitStatus: *p.status}
	case !p.status.Success():
		return &ExitError{ExitStatus: *p.status, cause: ctxErr}
	case p.stdin != nil && p.stdin.failure() != nil:
		return fmt.Errorf("reading standard input for %s: %w", p.name, p.stdin.failure())
	}
	return nil
}

// finish lets Wait return.
func (p *Process) finish() {
	if p.status == nil {
		p.awaitKill()
		if why := p.mayRunOn(); why != nil && p.err != nil {
			p.err = fmt.Errorf("%w; the process may run on: %w", p.err, why)
		}
	}
	p.unwatch()
	p.giveUp()
	if p.stdin != nil {
		p.stdin.close()
	}
	p.closePipes()
	close(p.done)
}

func (p *Process) closePipes() {
	for _, pipe := range p.pipes {
		pipe.Close()
	}
}
