package e2b

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"

	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/podapi"
)

// run is a process whose events a call is answered with.
type run struct {
	ctx      context.Context // its end leaves the process
	out      *events[processResponse]
	own      bool          // the call has started it, so that it ends with the call's time
	begun    chan struct{} // closed when the call was told that the process has started, or is not told any more
	begin    func()        // closes begun
	terminal bool
}

func newRun(ctx context.Context, out *events[processResponse]) *run {
	r := &run{ctx: ctx, out: out, begun: make(chan struct{})}
	r.begin = sync.OnceFunc(func() { close(r.begun) })
	return r
}

// start starts a command, and follows it. If its caller leaves before it has started, it does not
// run on: nobody would know of it.
func (r *run) start(c *podapi.Client, in *startRequest, name string) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	defer cancel() // the run is over by then
	stop := context.AfterFunc(r.ctx, cancel)
	cmd := c.Command(ctx, name, in.Process.Args...)
	in.settle(r.ctx, cmd)
	cmd.Stdout, cmd.Stderr = &output{run: r}, &output{run: r, stderr: true}
	if in.hasInput() {
		open, end := stdin.Open(nil)
		defer end()
		cmd.Stdin = open
	}
	err := cmd.Start()
	if !stop() {
		r.begin()
		if err == nil {
			_ = cmd.Wait()
		}
		return r.left()
	}
	if err != nil {
		return err
	}
	callOf(r.ctx).Started(r.ctx, cmd.Process)
	r.own = true
	return r.follow(c, cmd.Process)
}

// attach follows a process that was started before, from the beginning of its output.
func (r *run) attach(c *podapi.Client, id string) error {
	p, err := c.Attach(r.ctx, id, podapi.AttachOptions{Stdout: &output{run: r}, Stderr: &output{run: r, stderr: true}})
	if err != nil {
		return err
	}
	return r.follow(c, p)
}

// follow sends the events of a process to its end.
func (r *run) follow(c *podapi.Client, p *podapi.Process) error {
	leave := func() { _ = p.Detach() }
	defer context.AfterFunc(r.ctx, leave)()
	defer context.AfterFunc(callOf(r.ctx).Closing(), leave)()
	r.terminal = p.HasTerminal()
	_ = r.out.send(&processResponse{processEvent{Start: &startEvent{p.PID()}}}) // if it fails, the context ends
	r.begin()
	r.out.keepAlive(&processResponse{processEvent{Keepalive: &struct{}{}}})
	err := p.Wait()
	status := p.Status()
	if status != nil {
		callOf(r.ctx).Exited(r.ctx, status)
	}
	switch _, ended := errors.AsType[*podapi.ExitError](err); {
	case errors.Is(err, podapi.ErrDetached):
		return r.left()
	case err != nil && !ended:
		return err
	case r.own && status.Reason == podapi.TimedOut:
		return errTimeout
	case status.Reason == podapi.Signalled && ends(r.ctx, c):
		return errEnds
	}
	return r.out.send(&processResponse{processEvent{End: endOf(status, p.Omitted())}})
}

// left returns why the call ends although its process has not.
func (r *run) left() error {
	switch {
	case callOf(r.ctx).Closing().Err() != nil:
		return errClosing
	case errors.Is(r.ctx.Err(), context.DeadlineExceeded):
		return errTimeout
	}
	return r.ctx.Err()
}

var errTimeout = fmt.Errorf("the time of the call (%s) is over: %w", timeoutHeader, context.DeadlineExceeded)

// ends reports whether the sandbox of a call is about to end, or has ended, which ends its processes by a signal.
// Its agent may be silent then.
func ends(ctx context.Context, c *podapi.Client) bool {
	within := func(ask func(ctx context.Context) bool) bool {
		ctx, cancel := context.WithTimeout(ctx, agentTime)
		defer cancel()
		return ask(ctx)
	}
	return within(callOf(ctx).isOver) || within(func(ctx context.Context) bool { return errors.Is(c.Healthy(ctx), podapi.ErrUnavailable) })
}

// endOf describes the end of a process, as Go's os.ProcessState would, which is what SDKs are used to.
func endOf(s *podapi.ExitStatus, omitted int64) *endEvent {
	e := &endEvent{ExitCode: s.Code, Exited: s.Reason == podapi.Exited, Status: s.String()}
	var faults []string
	if !e.Exited {
		e.ExitCode = -1
	}
	if s.Reason == podapi.Signalled {
		e.Status = "signal: " + syscall.Signal(s.Signal).String()
	}
	if !s.Success() {
		faults = append(faults, e.Status)
	}
	if omitted > 0 {
		faults = append(faults, fmt.Sprintf("%d bytes of its output are missing: the sandbox no longer has them", omitted))
	}
	e.Error = strings.Join(faults, "; ")
	return e
}

// output sends what is written to it as events.
type output struct {
	*run
	stderr bool
}

// Write implements [io.Writer]. It never fails: that would end the process. If the caller takes no
// more, the end of the run's context leaves it.
func (o *output) Write(p []byte) (int, error) {
	<-o.begun
	d := &dataEvent{}
	switch {
	case o.stderr:
		d.Stderr = p
	case o.terminal:
		d.PTY = p
	default:
		d.Stdout = p
	}
	if o.ctx.Err() == nil {
		_ = o.out.send(&processResponse{processEvent{Data: d}})
	}
	return len(p), nil
}
