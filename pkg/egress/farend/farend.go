// Package farend accepts the connections by which programs leave a sandbox: what they send to
// the proxy on its loopback. Package egress decides where they lead.
package farend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/internal/halves"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Options says how [Listen] serves.
type Options struct {
	// Generation orders far ends: the highest serves. Among equals, who came first does.
	Generation uint64
	// Env are variables, as NAME=VALUE, that commands get from now on, beside those of the proxy.
	// They go with a listener of generation 0 that is closed, and otherwise 10 s after the listener,
	// unless another far end serves.
	Env []string
	// Exclusive stands by for a moment only, in which another far end may be about to leave: then
	// the listener ends with [ErrServed].
	Exclusive bool
	// Changed, if not nil, is called at the start and with each change, by one goroutine at a time.
	Changed func(State)
}

// byeTime is how long an agent may take to end the call of a far end that leaves.
const byeTime = time.Second

// leaveTime is how long an agent may take to notice that a far end has left.
const leaveTime = 3 * time.Second

// ErrServed says that another far end serves the sandbox.
var ErrServed = errors.New("another program serves the sandbox's way out, by its own policy")

// State is what a far end is.
type State struct {
	Serving    bool   // it carries the sandbox's connections
	Port       int    // of the proxy in the sandbox, if it serves
	Generation uint64 // of the far end that serves in its place, if another does
	Err        error  // why there is no connection to the agent, while that is so
}

// Listener accepts the connections by which programs in a sandbox leave it: what they
// send to the proxy on its loopback.
type Listener struct {
	client *podapi.Client
	opts   Options
	ctx    context.Context
	cancel context.CancelCauseFunc
	conns  chan net.Conn
	slots  chan struct{} // has an element for each connection that is being opened
	first  chan State
	over   chan struct{} // closed when it has ended
	told   sync.Once
	serves atomic.Bool // what the agent said last
	served atomic.Bool // whether it ever did

	last    *State // what the agent said last, in this call
	changes int    // how often it has said something new
}

var _ net.Listener = (*Listener)(nil)

// maxOpening bounds the connections that are being opened: as many as an agent has that wait.
const maxOpening = 512

const (
	// answerTime is how long an agent may take to say who serves. A restart of the agent fits.
	answerTime = 30 * time.Second
	// maxChanges is how often an agent may change what it says of that in one call: it does so when a
	// far end comes or goes.
	maxChanges = 1000
)

// A far end calls an agent again that it has lost after a pause, which grows.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Listen makes the caller the far end of the sandbox's way out: of the proxy on its
// loopback, whose protocols (HTTP's CONNECT and absolute form, SOCKS5) the caller speaks. It
// returns once the caller serves or stands by, and goes on until ctx ends, the listener is
// closed or the agent is lost for good; cuts are bridged. Connections are like those of
// [podapi.Client.Dial], and outlive the listener. Each has a method Context() context.Context, which
// ends when its program is gone: also while nobody reads. The error is [podapi.ErrVersion] if the agent is too old.
func Listen(ctx context.Context, client *podapi.Client, opts Options) (*Listener, error) {
	l := &Listener{client: client, opts: opts, conns: make(chan net.Conn), slots: make(chan struct{}, maxOpening), first: make(chan State, 1), over: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(l.over)
		l.run()
	}()
	mute := time.NewTimer(answerTime)
	defer mute.Stop()
	select {
	case state := <-l.first:
		if state.Err == nil {
			return l, nil
		}
		l.cancel(net.ErrClosed)
		return nil, state.Err
	case <-mute.C:
		l.cancel(net.ErrClosed)
		return nil, fmt.Errorf("%w: it has not said within %v who lets its connections out", podapi.ErrUnavailable, answerTime)
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Accept returns the next connection.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Serving reports whether the listener's owner is the far end, rather than standing by.
func (l *Listener) Serving() bool { return l.serves.Load() }

// Close ends the listener. Another far end, if one stands by, then serves. It waits a moment for the
// agent to know.
func (l *Listener) Close() error {
	l.cancel(net.ErrClosed)
	wait := time.NewTimer(byeTime)
	defer wait.Stop()
	select {
	case <-l.over:
	case <-wait.C:
	}
	return nil
}

// Addr is no address that anybody could dial.
func (l *Listener) Addr() net.Addr { return addr{} }

type addr struct{}

func (addr) Network() string { return "podagent" }
func (addr) String() string  { return "egress" }

// run serves until the listener ends.
func (l *Listener) run() {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		served, err := l.serve()
		if l.ctx.Err() != nil {
			return
		}
		if served {
			pause = firstPause
		}
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w: the agent cannot let connections out: update the agent's image", podapi.ErrVersion)
		}
		l.change(State{Err: err})
		if !errors.Is(err, podapi.ErrUnavailable) && !errors.Is(err, podapi.ErrCut) {
			l.cancel(err)
			return
		}
		delay.For(l.ctx, pause)
	}
}

// news tells the caller of what an agent says. One that says the same again is not heard, and one
// that changes its mind without end is left: the caller may do something each time.
func (l *Listener) news(s State) error {
	if l.last != nil && *l.last == s {
		return nil
	}
	l.last = &s
	if l.changes++; l.changes > maxChanges {
		return fmt.Errorf("%w: it changed %d times who lets its connections out", podapi.ErrProtocol, maxChanges)
	}
	if s.Serving {
		l.served.Store(true)
		l.change(s)
		return nil
	}
	l.standBy(s)
	return nil
}

// change tells the caller of a state.
func (l *Listener) change(s State) {
	l.serves.Store(s.Serving)
	l.told.Do(func() { l.first <- s })
	if l.opts.Changed != nil {
		l.opts.Changed(s)
	}
}

// serve is one call of Serve. It returns why that has ended, and whether the agent answered before.
func (l *Listener) serve() (answered bool, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.ctx))
	defer cancel()
	call, err := pb.NewEgressClient(l.client.Conn()).Serve(ctx)
	if err != nil {
		return false, wire.FromStatus(err)
	}
	env := make([][]byte, len(l.opts.Env))
	for i, v := range l.opts.Env {
		env[i] = []byte(v)
	}
	start := &pb.EgressStart{Generation: l.opts.Generation, Env: env}
	// If sending fails, receiving says why.
	_ = call.Send(&pb.EgressServeRequest{Kind: &pb.EgressServeRequest_Start{Start: start}})
	defer context.AfterFunc(l.ctx, func() { // this tells the agent a leave from a cut
		_ = call.CloseSend()
		time.AfterFunc(byeTime, cancel)
	})()
	l.last, l.changes = nil, 0
	for ; ; answered = true {
		r, err := call.Recv()
		if err != nil {
			return answered, wire.FromStatus(ofCut(err))
		}
		switch kind := r.Kind.(type) {
		case *pb.EgressServeResponse_Serving:
			err = l.news(State{Serving: true, Port: int(kind.Serving.GetPort())})
		case *pb.EgressServeResponse_Standby:
			err = l.news(State{Generation: kind.Standby.GetGeneration()})
		case *pb.EgressServeResponse_Connection:
			err = l.take(ctx, kind.Connection.GetId())
		}
		if err != nil {
			return answered, err
		}
	}
}

// standBy tells the caller that it stands by, unless it must not.
func (l *Listener) standBy(s State) {
	switch {
	case !l.opts.Exclusive:
		l.change(s)
	case l.served.Load():
		l.cancel(ErrServed)
	default:
		time.AfterFunc(leaveTime, func() {
			if !l.served.Load() {
				l.cancel(ErrServed)
			}
		})
	}
}

// take opens a connection that was announced. Programs may open and end connections faster than
// they are opened here: then the announcements wait, and with them the programs.
func (l *Listener) take(ctx context.Context, id uint64) error {
	select {
	case l.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	go func() {
		defer func() { <-l.slots }()
		conn, err := l.client.Carry(l.ctx, id)
		if err != nil {
			return // the program has given up, or the connection to the agent is cut, which serve sees
		}
		select {
		case l.conns <- conn:
		case <-l.ctx.Done():
			halves.Reset(conn)
		}
	}()
	return nil
}

// ofCut is the error of a stream that ended by err, which never ends well.
func ofCut(err error) error {
	if err == io.EOF {
		return podapi.ErrCut
	}
	return err
}
