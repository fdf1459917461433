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

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The policy of a run whose connection is cut:
//
//   - What may pass (the connection broke, the agent shuts down, the reader was
//     detached because its writer was slow, or replaced by an earlier call of its
//     own that came in late) is tried again, by attaching at the offsets that are
//     here, until there was no connection for ResumeTimeout.
//   - A start names the agent's boot id from its first try on. As long as
//     nothing was sent, that is the one which the client knows, and if it turns
//     out to be outdated, the present one takes its place. From the first
//     message on it stays, so that no second agent ever runs the command.
//   - A start that was not sent fails as any call does: the way to the agent may
//     never have been there, and waiting is the transport's affair.
//   - Everything else is final.

// open opens the first stream of the run.
func (c *Cmd) open() (*execStream, error) {
	for try := 1; ; try++ {
		life, first, err := c.first()
		if err != nil {
			return nil, wire.FromStatus(err)
		}
		s, err := c.dial(c.ctx)
		if err != nil {
			return nil, wire.FromStatus(err)
		}
		c.watch()
		err = c.greet(c.life, s, first)
		switch {
		case err == nil:
			return s, nil
		case c.attach == nil && try < startTries && isAgentLost(err): // nothing ran: the agent says so
			c.client.forgetLife(life)
		case mayPass(err) && wire.Detail(err) == nil && c.patience() > 0:
			return c.reopen(err)
		default:
			return nil, c.verdict(err)
		}
	}
}

// first returns the first message of the run, and for which agent it is.
func (c *Cmd) first() (*agentLife, *pb.ExecRequest, error) {
	if c.attach != nil {
		if c.attach.asksMore() {
			if _, err := c.client.speaks(c.ctx, 1); err != nil {
				return nil, nil, err
			}
		}
		return nil, c.attachRequest(), nil
	}
	minor := 0
	if len(c.Rlimits) > 0 {
		minor = 1
	}
	life, err := c.client.speaks(c.ctx, minor)
	if err != nil {
		return nil, nil, err
	}
	c.boot = life.bootID
	request, err := c.startRequest(c.boot)
	return life, request, err
}

// watch turns the end of the context into that of the run, from now on.
func (c *Cmd) watch() {
	c.unwatch()
	c.unwatch = context.AfterFunc(c.ctx, c.part)
}

// follow takes the messages of one stream after the other, until the end.
func (c *Cmd) follow(s *execStream) {
	var final *pb.ExecResponse
	var err error
	for err == nil && final == nil {
		final, err = c.receive(s)
		c.leave(s)
		if err != nil {
			s, err = c.resume(err)
		}
	}
	c.conclude(final, err)
	c.finish()
}

// resume returns the stream that follows one which ended by err, or why there
// is none.
func (c *Cmd) resume(err error) (*execStream, error) {
	if errors.Is(wire.FromStatus(err), ErrStalled) {
		c.output.drain(c.calm) // a new stream would only stall again
	}
	switch {
	case isAgentLost(err):
		return nil, c.verdict(err)
	case c.control.detaching():
		return nil, ErrDetached
	case c.client.closed.Load():
		return nil, errClosed
	case !mayPass(err):
		return nil, c.verdict(err)
	case c.patience() <= 0:
		return nil, wire.FromStatus(cutError(err))
	}
	return c.reopen(err)
}

// errClosed says that the caller closed the client under a command.
var errClosed = fmt.Errorf("%w: the client was closed", ErrUnavailable)

// reopen makes another stream, after one that ended by err. At first it does
// not wait; then the transport may, where it does not know of a connection.
func (c *Cmd) reopen(err error) (*execStream, error) {
	ctx, cancel := context.WithTimeout(c.life, c.patience())
	defer cancel()
	for {
		pause(ctx, resumeDelay(c.tries))
		c.tries++
		s, next := c.try(ctx)
		switch {
		case next == nil:
			return s, nil
		case c.life.Err() != nil:
			return nil, next
		case c.client.closed.Load():
			return nil, errClosed
		case ctx.Err() != nil:
			return nil, c.unreachable(err)
		case !mayPass(next):
			return nil, c.verdict(next)
		}
		err = next
	}
}

// try makes one try to go on.
func (c *Cmd) try(ctx context.Context) (*execStream, error) {
	first := c.attachRequest()
	// A start that may not have arrived is not sent any more once the command is
	// to be killed.
	if c.started == nil && c.attach == nil && !c.control.killing() {
		var err error
		if first, err = c.startRequest(c.boot); err != nil {
			return nil, err
		}
	}
	s, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	return s, c.greet(ctx, s, first)
}

// patience is how long a connection is sought; nothing or less for not at all.
func (c *Cmd) patience() time.Duration {
	if c.ResumeTimeout == 0 {
		return DefaultResumeTimeout
	}
	return c.ResumeTimeout
}

// resumeDelay returns how long to wait before a try, of which so many were in
// vain.
func resumeDelay(tries int) time.Duration {
	if tries == 0 {
		return 0
	}
	return min(resumeFirst<<min(tries-1, 16), resumeLast)
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// mayPass reports whether what ended a stream, or kept one from being opened,
// may be over at the next try.
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
	st, ok := status.FromError(err)
	return ok && (st.Code() == codes.Unavailable || st.Code() == codes.Canceled)
}

func isAgentLost(err error) bool { return wire.Detail(err).GetClass() == pb.Class_CLASS_AGENT_LOST }

// verdict returns what a final error means.
func (c *Cmd) verdict(err error) error {
	noWay, given := errors.AsType[*noWayError](err)
	switch decoded := wire.FromStatus(cutError(err)); {
	case isAgentLost(err):
		return &lostError{c.client.whyLost(c.life)}
	case given:
		return c.noWay(noWay.error)
	case c.started != nil && errors.Is(decoded, fs.ErrNotExist):
		return fmt.Errorf("%w: the agent does not know the process any more", ErrExecExpired)
	default:
		return decoded
	}
}

// noWay returns what it means for the run that the transport has given up, for
// the reason err.
func (c *Cmd) noWay(err error) error {
	if c.boot == "" || errors.Is(err, ErrUnauthenticated) || errors.Is(err, ErrWrongPod) {
		return err // of the process nothing is known
	}
	if why := c.client.whyLost(c.life); why != nil {
		return &lostError{why}
	}
	return err
}

// unreachable returns the error of a run that found no connection in time, of
// which err is why the last try failed.
func (c *Cmd) unreachable(err error) error {
	err = fmt.Errorf("%w (for %v)", wire.FromStatus(cutError(err)), c.patience())
	if why := c.client.whyLost(c.life); why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// lostError says that the agent which had a process is gone.
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
