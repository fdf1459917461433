package podapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The policy of a run whose connection is cut:
//
//   - Some causes may pass: the connection broke, the agent shuts down, the agent
//     detached the reader because its writer was slow, or an earlier call of the run
//     came in late and replaced it. The run then attaches again, at the offsets that it
//     has reached, until there was no connection for ResumeTimeout.
//   - A start names the agent's boot id from its first try on. Until something was
//     sent, this is the boot id that the client knows; if it is outdated, the present
//     one replaces it. After that it stays, so that no second agent runs the command.
//   - A start that was not sent fails as any call does: the agent may never have been
//     reachable, and the transport does the waiting.
//   - A start whose process is to be killed is not sent again.
//   - Every other cause is final.

// open opens the first stream of the run. If it fails, the run is over.
func (p *Process) open() (*execStream, error) {
	p.unwatch = context.AfterFunc(p.ctx, func() { p.part(false) })
	s, err := p.openFirst()
	if err == nil {
		return s, nil
	}
	p.finish()
	if ctxErr := p.ctx.Err(); ctxErr != nil {
		err = ctxErr
	}
	return nil, p.wrap(err)
}

func (p *Process) openFirst() (*execStream, error) {
	for try := 1; ; try++ {
		life, first, err := p.first()
		if err != nil {
			return nil, wire.FromStatus(err)
		}
		s, err := p.dial(p.ctx)
		if err != nil {
			return nil, wire.FromStatus(err)
		}
		answer, stop := p.startTime()
		err = p.greet(answer, s, first)
		late := answer.Err() != nil && p.life.Err() == nil
		stop()
		switch {
		case err == nil:
			return s, nil
		case late:
			return nil, p.giveUpOverdue("it has not answered the start of a command")
		case p.attach == nil && try < startTries && isAgentLost(err): // the agent says that nothing ran
			p.client.forgetLife(life)
		case isCut(err) && wire.Detail(err) == nil && p.patience() > 0:
			return p.reopen(err)
		default:
			return nil, p.finalError(err)
		}
	}
}

// first returns the first message of the run, and the agent that it is for.
func (p *Process) first() (*agentLife, *pb.ExecRequest, error) {
	if p.attach != nil {
		if p.attach.asksMore() {
			if _, err := p.client.speaks(p.ctx, 1); err != nil {
				return nil, nil, err
			}
		}
		return nil, p.attachRequest(), nil
	}
	minor := 0
	if p.limited {
		minor = 1
	}
	life, err := p.client.speaks(p.ctx, minor)
	if err != nil {
		return nil, nil, err
	}
	p.boot = life.bootID
	request, err := p.startRequest(p.boot)
	return life, request, err
}

// follow receives the messages of one stream after the other, until the end.
func (p *Process) follow(s *execStream) {
	if p.stdin != nil {
		go p.stdin.read()
	}
	var final *pb.ExecResponse
	var err error
	for err == nil && final == nil {
		final, err = p.receive(s)
		p.leave(s)
		if err != nil {
			s, err = p.resume(err)
		}
	}
	p.told()
	p.conclude(final, err)
	p.finish()
}

// resume returns the next stream after one that ended by err, or why there is none.
func (p *Process) resume(err error) (*execStream, error) {
	if errors.Is(wire.FromStatus(err), ErrStalled) {
		p.output.drain(p.calm) // otherwise the new stream would stall again
	}
	switch {
	case isAgentLost(err):
		return nil, p.finalError(err)
	case p.control.detaching():
		p.control.awaitApart()
		return nil, ErrDetached
	case p.client.closed.Load():
		return nil, errClosed
	case !mayPass(err):
		return nil, p.finalError(err)
	case p.patience() <= 0:
		return nil, wire.FromStatus(cutError(err))
	}
	return p.reopen(err)
}

// errClosed says that the caller closed the client during a command.
var errClosed = fmt.Errorf("%w: the client was closed", ErrUnavailable)

// reopen opens another stream, after one that ended by err. At first it does not
// wait; then the transport may, if it knows no connection.
func (p *Process) reopen(err error) (*execStream, error) {
	ctx, cancel := context.WithTimeout(p.life, p.patience())
	defer cancel()
	for {
		delay.For(ctx, resumeDelay(p.tries))
		p.tries++
		s, next := p.try(ctx)
		switch {
		case next == nil:
			return s, nil
		case p.life.Err() != nil:
			return nil, next
		case p.client.closed.Load():
			return nil, errClosed
		case ctx.Err() != nil:
			return nil, p.unreachable(err)
		case !mayPass(next):
			return nil, p.finalError(next)
		}
		err = next
	}
}

// try makes one attempt to continue.
func (p *Process) try(ctx context.Context) (*execStream, error) {
	first := p.attachRequest()
	if p.started == nil && p.attach == nil {
		var err error
		if first, err = p.startRequest(p.boot); err != nil {
			return nil, err
		}
	}
	s, err := p.dial(ctx)
	if err != nil {
		return nil, err
	}
	return s, p.greet(ctx, s, first)
}

// resumeDelay returns how long to wait before a try, after this many failed ones.
func resumeDelay(tries int) time.Duration {
	if tries == 0 {
		return 0
	}
	return min(resumeFirst<<min(tries-1, 16), resumeLast)
}

// mayPass reports whether the cause that ended or prevented a stream may be gone at
// the next try.
func mayPass(err error) bool {
	if err == io.EOF {
		return true
	}
	if e := wire.Detail(err); e != nil {
		switch e.Class {
		case pb.Class_CLASS_STALLED, pb.Class_CLASS_UNAVAILABLE, pb.Class_CLASS_CANCELLED:
			return true
		}
		return false
	}
	_, given := errors.AsType[*noWayError](err)
	return isCut(err) || !given && errors.Is(err, ErrUnavailable) // by an interceptor's word
}

// isCut reports whether a stream ended without a word of the agent's, or of what is before it.
func isCut(err error) bool {
	st, ok := status.FromError(err)
	return err == io.EOF || ok && (st.Code() == codes.Unavailable || st.Code() == codes.Canceled)
}

func isAgentLost(err error) bool { return wire.Detail(err).GetClass() == pb.Class_CLASS_AGENT_LOST }

// finalError translates an error that ends the run.
func (p *Process) finalError(err error) error {
	noWay, given := errors.AsType[*noWayError](err)
	switch decoded := wire.FromStatus(cutError(err)); {
	case isAgentLost(err):
		return &lostError{p.client.whyLost(p.life)}
	case given:
		return p.noWay(noWay.error)
	case p.started != nil && errors.Is(decoded, fs.ErrNotExist):
		return fmt.Errorf("%w: the agent does not know the process any more", ErrExecExpired)
	default:
		return decoded
	}
}

// noWay returns the run's error when the transport has given up with err.
func (p *Process) noWay(err error) error {
	if p.boot == "" || errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrWrongPod) {
		return err // nothing is known about the process
	}
	if why := p.client.whyLost(p.life); why != nil {
		return &lostError{why}
	}
	return err
}

// unreachable returns the error of a run that found no connection in time. err is
// the error of the last try.
func (p *Process) unreachable(err error) error {
	err = fmt.Errorf("%w (for %v)", wire.FromStatus(cutError(err)), p.patience())
	if why := p.client.whyLost(p.life); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// lostError says that the agent of a process is gone.
type lostError struct{ why error } // in the platform's words; nil if it has none

func (e *lostError) Error() string {
	if e.why == nil {
		return ErrAgentLost.Error() + ": it has restarted, and its processes are gone"
	}
	return ErrAgentLost.Error() + ": " + e.why.Error()
}

func (e *lostError) Unwrap() []error {
	if e.why == nil {
		return []error{ErrAgentLost}
	}
	return []error{ErrAgentLost, e.why}
}
