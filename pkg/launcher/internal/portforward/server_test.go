package portforward

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	tunnel "k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

const token = "a token"

// cluster is an API server and a node in one. It upgrades port-forward requests
// with the stock server sides of both protocols, and copies to the connection that
// pod opens.
type cluster struct {
	server *httptest.Server
	pod    func(port string) (net.Conn, error)

	// The error that answers a request instead of the upgrade, unless it is nil.
	refuseWebSocket, refuseSPDY *apierrors.StatusError
	websockets, spdys           atomic.Int64 // numbers of requests
	records                     atomic.Int64 // TLS records with data that came in

	// ignoreStreams receives a value for each pair of streams that then gets no
	// answer.
	ignoreStreams chan<- struct{}
	// errorReply, if it is not nil, delays the answer to the error stream.
	errorReply <-chan struct{}
	// afterwards is called with the connection when the streams are open.
	afterwards func(conn httpstream.Connection, data, errs httpstream.Stream)

	closed chan struct{}
	mu     sync.Mutex
	raws   []net.Conn
}

// newCluster starts a cluster whose pods listen at address.
func newCluster(tb testing.TB, address string) *cluster {
	tb.Helper()
	c := &cluster{
		pod:    func(string) (net.Conn, error) { return net.Dial("tcp", address) },
		closed: make(chan struct{}),
	}
	c.server = httptest.NewUnstartedServer(c)
	c.server.Listener = &countingListener{c.server.Listener, c}
	c.server.StartTLS()
	tb.Cleanup(func() {
		close(c.closed)
		c.cut()
		c.server.Close()
	})
	return c
}

func (c *cluster) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	return &rest.Config{
		Host:            c.server.URL,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "example.com"},
	}
}

// cut closes every client connection without notice.
func (c *cluster) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, raw := range c.raws {
		_ = raw.Close()
	}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	viaWebSocket := websocket.IsWebSocketUpgrade(req)
	refusal := c.refuseSPDY
	if viaWebSocket {
		c.websockets.Add(1)
		refusal = c.refuseWebSocket
	} else {
		c.spdys.Add(1)
	}
	switch {
	case req.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, apierrors.NewUnauthorized("no token"))
	case req.URL.Path != "/api/v1/namespaces/ns/pods/pod/portforward":
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), req.URL.Path))
	case refusal != nil:
		refuse(w, refusal)
	case viaWebSocket:
		c.serveWebSocket(w, req)
	default:
		c.serveSPDY(w, req)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

func (c *cluster) serveWebSocket(w http.ResponseWriter, req *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{portforward.WebsocketsSPDYTunnelingPortForwardV1}}
	ws, err := upgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn, err := spdy.NewServerConnection(tunnel.NewTunnelingConnection("server", ws), c.take(streams))
	if err != nil {
		return
	}
	c.serve(conn, streams)
}

func (c *cluster) serveSPDY(w http.ResponseWriter, req *http.Request) {
	if _, err := httpstream.Handshake(req, w, []string{portforward.PortForwardV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	if conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, c.take(streams)); conn != nil {
		c.serve(conn, streams)
	}
}

// take passes on the streams that a client opens.
func (c *cluster) take(streams chan<- httpstream.Stream) httpstream.NewStreamHandler {
	return func(s httpstream.Stream, _ <-chan struct{}) error {
		if c.ignoreStreams != nil {
			c.ignoreStreams <- struct{}{}
			<-c.closed
		}
		if s.Headers().Get(corev1.PortHeader) == "" || s.Headers().Get(corev1.PortForwardRequestIDHeader) == "" {
			return fmt.Errorf("a stream without port or request: %v", s.Headers())
		}
		streams <- s
		if c.errorReply != nil && s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
			<-c.errorReply
		}
		return nil
	}
}

// serve forwards one pair of streams until the client's connection ends.
func (c *cluster) serve(conn httpstream.Connection, streams <-chan httpstream.Stream) {
	defer func() { _ = conn.Close() }()
	var data, errs httpstream.Stream
	for data == nil || errs == nil {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
				data = s
			} else {
				errs = s
			}
		case <-conn.CloseChan():
			return
		}
	}
	if c.afterwards != nil {
		c.afterwards(conn, data, errs)
	} else {
		c.forward(data, errs)
	}
	<-conn.CloseChan()
}

// forward does what a node does, in the same order.
func (c *cluster) forward(data, errs httpstream.Stream) {
	pod, err := c.pod(data.Headers().Get(corev1.PortHeader))
	if err != nil {
		_, _ = fmt.Fprintf(errs, "error forwarding port: %v", err)
		_ = data.Reset()
		_ = errs.Reset()
		return
	}
	go func() {
		_, _ = io.Copy(pod, data)
		_ = pod.(*net.TCPConn).CloseWrite()
	}()
	go func() {
		defer func() { _ = pod.Close() }()
		_, _ = io.Copy(data, pod)
		_ = errs.Close()
		_ = data.Close()
	}()
}

// countingListener counts the TLS records with data that clients send.
type countingListener struct {
	net.Listener
	cluster *cluster
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.cluster.mu.Lock()
	l.cluster.raws = append(l.cluster.raws, conn)
	l.cluster.mu.Unlock()
	return &countingConn{Conn: conn, records: &l.cluster.records}, nil
}

type countingConn struct {
	net.Conn
	records *atomic.Int64
	header  []byte
	skip    int
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.count(p[:n])
	return n, err
}

func (c *countingConn) count(p []byte) {
	const size, data = 5, 23 // size of a record's header; type of a data record
	for len(p) > 0 {
		if c.skip > 0 {
			k := min(c.skip, len(p))
			c.skip, p = c.skip-k, p[k:]
			continue
		}
		k := min(size-len(c.header), len(p))
		c.header, p = append(c.header, p[:k]...), p[k:]
		if len(c.header) == size {
			if c.header[0] == data {
				c.records.Add(1)
			}
			c.skip = int(binary.BigEndian.Uint16(c.header[3:]))
			c.header = c.header[:0]
		}
	}
}

// listen serves each connection to a pod with serve until the test ends.
func listen(tb testing.TB, serve func(net.Conn)) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			tb.Cleanup(func() { _ = conn.Close() })
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// protocols returns the two ways to a pod, each as the change to a cluster that
// forces it.
func protocols(tb testing.TB) map[string]func(*cluster) {
	tb.Helper()
	return map[string]func(*cluster){
		"WebSocket": func(c *cluster) { c.refuseSPDY = apierrors.NewBadRequest("no SPDY") },
		"SPDY":      func(c *cluster) { c.refuseWebSocket = apierrors.NewBadRequest("no WebSocket") },
	}
}

// eachProtocol runs a test with a cluster for each protocol. Their pods serve their
// connections with serve.
func eachProtocol(t *testing.T, serve func(net.Conn), test func(*testing.T, *cluster)) {
	t.Helper()
	for name, force := range protocols(t) {
		t.Run(name, func(t *testing.T) {
			noLeaks(t)
			c := newCluster(t, listen(t, serve))
			force(c)
			test(t, c)
		})
	}
}

// dial opens a connection to the pod of a cluster.
func dial(tb testing.TB, c *cluster) net.Conn {
	tb.Helper()
	conn, err := newDialer(tb, c).Dial(context.Background(), "ns", "pod", 8080)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

func newDialer(tb testing.TB, c *cluster) *Dialer {
	tb.Helper()
	d, err := New(c.config())
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// ping sends a message and waits for its echo.
func ping(tb testing.TB, conn net.Conn, message string) {
	tb.Helper()
	if _, err := conn.Write([]byte(message)); err != nil {
		tb.Fatal(err)
	}
	got := make([]byte, len(message))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, []byte(message)) {
		tb.Fatalf("echo of %q is %q, %v", message, got, err)
	}
}

// noLeaks fails the test if goroutines of a connection outlive it.
func noLeaks(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		eventually(t, "the connections' goroutines end", func() (bool, string) {
			stacks := allStacks()
			return !strings.Contains(stacks, "internal/portforward.(*conn)") &&
				!strings.Contains(stacks, "internal/portforward.(*Dialer)"), stacks
		})
	})
}
