package e2e

import (
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

// wire is the way from a launcher to the API server, through a TCP proxy that
// can cut it.
type wire struct {
	listener net.Listener
	to       string // the API server

	mu      sync.Mutex
	pairs   map[*pair]struct{}
	away    bool          // who connects is refused
	refused chan struct{} // gets one for each who was
	opened  int           // how many were let through
}

// pair is one connection through the proxy.
type pair struct {
	client, server *net.TCPConn
	stuck          chan struct{} // closed when no byte passes any more
	stick          sync.Once
}

// wireTo makes a proxy before the API server of a cluster, and a launcher that
// has no other way to it.
func wireTo(t *testing.T, c *launchertest.Cluster) (*wire, *launcher.Kubernetes) {
	t.Helper()
	server, err := url.Parse(c.Orchestrator.Host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: listener, to: server.Host, pairs: map[*pair]struct{}{}, refused: make(chan struct{}, 1)}
	go w.serve()
	t.Cleanup(func() {
		listener.Close()
		w.reset()
	})
	l := c.Launcher()
	l.Config = rest.CopyConfig(c.Orchestrator)
	l.Config.Host = "https://" + listener.Addr().String()
	l.Config.ServerName = server.Hostname()
	return w, l
}

func (w *wire) serve() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		go w.join(client.(*net.TCPConn))
	}
}

// join carries the bytes of one connection, unless the server is away.
func (w *wire) join(client *net.TCPConn) {
	server, err := net.Dial("tcp", w.to)
	if err != nil {
		client.Close()
		return
	}
	p := &pair{client: client, server: server.(*net.TCPConn), stuck: make(chan struct{})}
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

// each does something to all connections there are.
func (w *wire) each(do func(*pair)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.pairs {
		do(p)
	}
}

// reset, finish and stick are how connections end: by RST, by FIN, and by no
// byte passing any more though nobody closes.
func (w *wire) reset()  { w.each((*pair).reset) }
func (w *wire) finish() { w.each((*pair).finish) }
func (w *wire) stick()  { w.each(func(p *pair) { p.stick.Do(func() { close(p.stuck) }) }) }

// setAway makes the API server refuse who connects, or not.
func (w *wire) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

// connections returns how many there have been.
func (w *wire) connections() int {
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

// copy copies until the end of from, which it hands on. Once stuck, it takes
// bytes no more, until the client gives up.
func (p *pair) copy(to, from *net.TCPConn) {
	_, err := io.Copy(&valve{to, p.stuck}, from)
	if errors.Is(err, errStuck) {
		awaitClose(p.client)
		to.Close()
		return
	}
	to.CloseWrite()
}

// errStuck says that the way is stuck.
var errStuck = errors.New("no byte passes")

// valve is a connection that takes nothing once stuck is closed.
type valve struct {
	*net.TCPConn
	stuck <-chan struct{}
}

func (v *valve) Write(data []byte) (int, error) {
	select {
	case <-v.stuck:
		return 0, errStuck
	default:
		return v.TCPConn.Write(data)
	}
}

// ReadFrom hides that of the connection, which would go around Write.
func (v *valve) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{v}, r)
}

// awaitClose waits for the other side to close its connection; what comes
// before is taken, and lost.
func awaitClose(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }

// reset ends both connections as a crash of the proxy does.
func (p *pair) reset() {
	for _, conn := range []*net.TCPConn{p.client, p.server} {
		_ = conn.SetLinger(0) // so that Close sends RST
		conn.Close()
	}
}

// finish ends both connections with FIN, in the middle of whatever was sent.
func (p *pair) finish() {
	p.client.CloseWrite()
	p.server.CloseWrite()
}
