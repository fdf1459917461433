package podapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/podagent/podagent/internal/delay"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// EgressOptions says how [Client.ServeEgress] serves.
type EgressOptions struct {
	// Generation orders far ends: the highest serves. Among equals, who came first does.
	Generation uint64
	// Env are variables, as NAME=VALUE, that commands get from now on, beside those of the proxy.
	// They stay until another far end serves.
	Env []string
	// Changed, if not nil, is called at the start and with each change, by one goroutine at a time.
	Changed func(EgressState)
}

// EgressState is what a far end is.
type EgressState struct {
	Serving    bool   // it carries the sandbox's connections
	Port       int    // of the proxy in the sandbox, if it serves
	Generation uint64 // of the far end that serves in its place, if another does
	Err        error  // why there is no connection to the agent, while that is so
}

// EgressListener accepts the connections by which programs in a sandbox leave it: what they
// send to the proxy on its loopback.
type EgressListener struct {
	client *Client
	opts   EgressOptions
	ctx    context.Context
	cancel context.CancelCauseFunc
	conns  chan net.Conn
	slots  chan struct{} // has an element for each connection that is being opened
	first  chan EgressState
	told   sync.Once
}

var _ net.Listener = (*EgressListener)(nil)

// maxOpening bounds the connections that are being opened: an agent has no more that wait.
const maxOpening = 512

// A far end calls an agent again that it has lost after a pause, which grows.
const (
	firstEgressPause = 100 * time.Millisecond
	lastEgressPause  = 5 * time.Second
)

// ServeEgress makes the caller the far end of the sandbox's way out: of the proxy on its
// loopback, whose protocols (HTTP's CONNECT and absolute form, SOCKS5) the caller speaks. It
// returns once the caller serves or stands by, and goes on until ctx ends, the listener is
// closed or the agent is lost for good; cuts are bridged. Connections are like those of
// [Client.Dial], and outlive the listener. [ErrVersion] if the agent is too old.
//
// Package egress has such a far end.
func (c *Client) ServeEgress(ctx context.Context, opts EgressOptions) (*EgressListener, error) {
	l := &EgressListener{client: c, opts: opts, conns: make(chan net.Conn), slots: make(chan struct{}, maxOpening), first: make(chan EgressState, 1)}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	go l.run()
	select {
	case state := <-l.first:
		if state.Err == nil {
			return l, nil
		}
		l.cancel(net.ErrClosed)
		return nil, state.Err
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Accept returns the next connection.
func (l *EgressListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.ctx.Done():
		return nil, context.Cause(l.ctx)
	}
}

// Close ends the listener. Another far end, if one stands by, then serves.
func (l *EgressListener) Close() error {
	l.cancel(net.ErrClosed)
	return nil
}

// Addr is no address that anybody could dial.
func (l *EgressListener) Addr() net.Addr { return egressAddr{} }

type egressAddr struct{}

func (egressAddr) Network() string { return "podagent" }
func (egressAddr) String() string  { return "egress" }

// run serves until the listener ends.
func (l *EgressListener) run() {
	for pause := firstEgressPause; ; pause = min(2*pause, lastEgressPause) {
		served, err := l.serve()
		if l.ctx.Err() != nil {
			return
		}
		if served {
			pause = firstEgressPause
		}
		if errors.Is(err, errors.ErrUnsupported) {
			err = fmt.Errorf("%w: the agent cannot let connections out: update the agent's image", ErrVersion)
		}
		l.change(EgressState{Err: err})
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrCut) {
			l.cancel(err)
			return
		}
		delay.For(l.ctx, pause)
	}
}

// change tells the caller of a state.
func (l *EgressListener) change(s EgressState) {
	l.told.Do(func() { l.first <- s })
	if l.opts.Changed != nil {
		l.opts.Changed(s)
	}
}

// serve is one call of Serve. It returns why that has ended, and whether the agent answered before.
func (l *EgressListener) serve() (answered bool, err error) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	call, err := l.client.egress.Serve(ctx)
	if err != nil {
		return false, wire.FromStatus(err)
	}
	start := &pb.EgressStart{Generation: l.opts.Generation, Env: toBytes(l.opts.Env)}
	// If sending fails, receiving says why.
	_ = call.Send(&pb.EgressServeRequest{Kind: &pb.EgressServeRequest_Start{Start: start}})
	for ; ; answered = true {
		r, err := call.Recv()
		if err != nil {
			return answered, wire.FromStatus(cutError(err))
		}
		switch kind := r.Kind.(type) {
		case *pb.EgressServeResponse_Serving:
			l.change(EgressState{Serving: true, Port: int(kind.Serving.GetPort())})
		case *pb.EgressServeResponse_Standby:
			l.change(EgressState{Generation: kind.Standby.GetGeneration()})
		case *pb.EgressServeResponse_Connection:
			if err := l.take(kind.Connection.GetId()); err != nil {
				return answered, err
			}
		}
	}
}

// take opens a connection that was announced.
func (l *EgressListener) take(id uint64) error {
	select {
	case l.slots <- struct{}{}:
	default:
		return protocolError("it announced more than %d connections at once", maxOpening)
	}
	go func() {
		defer func() { <-l.slots }()
		conn, err := l.client.carry(l.ctx, id)
		if err != nil {
			return // the program has given up, or the connection to the agent is cut, which serve sees
		}
		select {
		case l.conns <- conn:
		case <-l.ctx.Done():
			abort(conn)
		}
	}()
	return nil
}

// carry opens a connection that was announced. It outlives ctx.
func (c *Client) carry(ctx context.Context, id uint64) (*portConn, error) {
	return c.begin(ctx, c.egress.Carry, &pb.DialOpen{Connection: id})
}

// begin opens a connection, and starts to carry its bytes. ctx is for the opening alone.
func (c *Client) begin(ctx context.Context, carry carrier, open *pb.DialOpen) (*portConn, error) {
	life, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, hangUp)
	conn, err := c.openConn(life, carry, open)
	if stop() && err == nil {
		conn.hangUp = hangUp
		conn.start()
		return conn, nil
	}
	hangUp()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, err
}

// EgressInfo says how commands can leave a sandbox by the network.
type EgressInfo struct {
	// Level says what keeps them from any way but the proxy.
	Level EgressLevel
	// Port is the proxy's on 127.0.0.1; 0 means that there is none yet.
	Port int
	// Served says that a far end serves.
	Served bool
	// Missing says why the level is not a stronger one.
	Missing string
}

// EgressLevel is what keeps commands from leaving a sandbox by another way than its proxy.
type EgressLevel string

// The levels, from the weakest.
const (
	// EgressOpen: nothing does, and there need be no proxy.
	EgressOpen EgressLevel = ""
	// EgressAdvisory: variables name the proxy, which programs may ignore.
	EgressAdvisory EgressLevel = "advisory"
	// EgressLandlock: the kernel lets commands connect to the proxy's port, and to a few others that
	// were named, of any host, and to nothing else.
	EgressLandlock EgressLevel = "landlock"
	// EgressNetwork: the sandbox's network leads nowhere.
	EgressNetwork EgressLevel = "network"
)

// egressLevels are all levels, from the weakest.
var egressLevels = []EgressLevel{EgressOpen, EgressAdvisory, EgressLandlock, EgressNetwork}

// AtLeast reports whether a level is as strong as another.
func (l EgressLevel) AtLeast(other EgressLevel) bool {
	return slices.Index(egressLevels, l) >= slices.Index(egressLevels, other)
}

func egressFromProto(e *pb.EgressInfo) EgressInfo {
	return EgressInfo{Level: EgressLevel(e.GetLevel()), Port: int(e.GetPort()), Served: e.GetServed(), Missing: e.GetMissing()}
}
