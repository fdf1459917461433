package harness

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// Wire is the way from a launcher to the API server, to the addresses of pods, or
// to an agent's socket. It is a proxy that can cut connections.
type Wire struct {
	listener net.Listener
	network  string // of the other side

	mu      sync.Mutex
	to      string // the other side
	pairs   map[*pair]struct{}
	away    bool          // new connections are refused
	refused chan struct{} // receives a value for each refusal
	opened  int           // number of connections that were not refused
}

// pair is one connection through the proxy.
type pair struct {
	client, server halfCloser
	stuck          chan struct{} // closed when no more bytes pass
	stick          sync.Once
}

// halfCloser is a TCP or unix connection.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// WireTo makes a proxy in front of a cluster's API server, or of the agents if they
// are reached by address. It also returns a launcher that has no other way to them.
func WireTo(t *testing.T, c *launchertest.Cluster) (*Wire, *launcher.Kubernetes) {
	t.Helper()
	if c.Connection == launcher.ByAddress {
		return wireToAddresses(t, c)
	}
	server, err := url.Parse(c.Orchestrator.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWire(t, listener, "tcp", server.Host)
	l := c.Launcher()
	l.Config = rest.CopyConfig(c.Orchestrator)
	l.Config.Host = "https://" + listener.Addr().String()
	l.Config.ServerName = server.Hostname()
	return w, l
}

func wireToAddresses(t *testing.T, c *launchertest.Cluster) (*Wire, *launcher.Kubernetes) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := NewWire(t, listener, "tcp", "")
	l := c.Launcher()
	l.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		w.LeadTo(address)
		return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
	}
	return w, l
}

// LeadTo sets where connections go from now on.
func (w *Wire) LeadTo(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = address
}

// NewWire serves a proxy on a listener until the test ends. The other side is at an
// address of a network.
func NewWire(t *testing.T, listener net.Listener, network, to string) *Wire {
	w := &Wire{listener: listener, network: network, to: to, pairs: map[*pair]struct{}{}, refused: make(chan struct{}, 1)}
	go w.serve()
	t.Cleanup(func() {
		listener.Close()
		w.Reset()
	})
	return w
}

// Addr returns the proxy's address.
func (w *Wire) Addr() net.Addr { return w.listener.Addr() }

// Refused receives a value when a connection was refused because the other side is
// away.
func (w *Wire) Refused() <-chan struct{} { return w.refused }

func (w *Wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.join(client.(halfCloser))
	}
}

// join carries the bytes of one connection, unless the server is away.
func (w *Wire) join(client halfCloser) {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	server, err := net.Dial(w.network, to)
	if err != nil {
		client.Close()
		return
	}
	p := &pair{client: client, server: server.(halfCloser), stuck: make(chan struct{})}
	w.mu.Lock()
	if w.away {
		w.mu.Unlock()
		p.reset()
		select {
		case w.refused <- struct{}{}:
		default:
		}
		return
	}
	w.pairs[p] = struct{}{}
	w.opened++
	w.mu.Unlock()
	p.carry()
	w.mu.Lock()
	delete(w.pairs, p)
	w.mu.Unlock()
}

// each does something to all current connections, and returns their number.
func (w *Wire) each(do func(*pair)) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pairs {
		do(p)
	}
	return len(w.pairs)
}

// Reset ends all connections with RST, and returns their number.
func (w *Wire) Reset() int { return w.each((*pair).reset) }

// Finish ends all connections with FIN, and returns their number.
func (w *Wire) Finish() int { return w.each((*pair).finish) }

// Stick stops all bytes on all connections without closing them, and returns the
// number of connections.
func (w *Wire) Stick() int {
	return w.each(func(p *pair) { p.stick.Do(func() { close(p.stuck) }) })
}

// SetAway makes the other side refuse connections, or stop refusing.
func (w *Wire) SetAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// Connections returns the number of connections so far.
func (w *Wire) Connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// carry copies in both directions until both have ended.
func (p *pair) carry() {
	var both sync.WaitGroup
	both.Go(func() { p.copy(p.server, p.client) })
	both.Go(func() { p.copy(p.client, p.server) })
	both.Wait()
	p.client.Close()
	p.server.Close()
}

// copy copies until the end of from, which it passes on. Once stuck, it stops
// taking bytes until the client gives up.
func (p *pair) copy(to, from halfCloser) {
	_, err := io.Copy(&valve{to, p.stuck}, from)
	if errors.Is(err, errStuck) {
		awaitClose(p.client)
		to.Close()
		return
	}
	to.CloseWrite()
}

// errStuck says that the connection is stuck.
var errStuck = errors.New("no byte passes")

// valve is a connection that accepts no bytes once stuck is closed.
type valve struct {
	halfCloser
	stuck <-chan struct{}
}

func (v *valve) Write(data []byte) (int, error) {
	select {
	case <-v.stuck:
		return 0, errStuck
	default:
		return v.halfCloser.Write(data)
	}
}

// awaitClose waits for the other side to close its connection. Data that arrives
// before is discarded.
func awaitClose(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// reset ends both connections, as a crash of the proxy would.
func (p *pair) reset() {
	for _, conn := range []net.Conn{p.client, p.server} {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // so that Close sends RST
		}
		conn.Close()
	}
}

// finish ends both connections with FIN, wherever the data stops.
func (p *pair) finish() {
	p.client.CloseWrite()
	p.server.CloseWrite()
}
