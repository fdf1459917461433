package execstream

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/rest"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/podagent/podagent/pkg/launcher/internal/upgrade"
)

const token = "a token"

// command is the command that the tests run. The URL must contain it.
var command = []string{"podagent", "connect"}

// cluster is an API server and a node in one. Its command joins its streams to the
// connection that pod opens, as podagent connect does.
type cluster struct {
	server *httptest.Server
	pod    func() (net.Conn, error)

	// The error that answers a request instead of the upgrade, unless it is nil.
	refuseWebSocket, refuseSPDY *apierrors.StatusError
	websockets, spdys           atomic.Int64 // numbers of requests

	mu   sync.Mutex
	raws []net.Conn
}

// newCluster starts a cluster whose agents listen at address.
func newCluster(tb testing.TB, address string) *cluster {
	tb.Helper()
	c := &cluster{pod: func() (net.Conn, error) { return net.Dial("tcp", address) }}
	c.server = httptest.NewUnstartedServer(c)
	c.server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateNew {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.raws = append(c.raws, conn)
		}
	}
	c.server.StartTLS()
	tb.Cleanup(func() {
		c.cut()
		c.server.Close()
	})
	return c
}

// cut closes every client connection without notice.
func (c *cluster) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, raw := range c.raws {
		_ = upgrade.Bottom(raw).Close()
	}
}

func (c *cluster) config() *rest.Config {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})
	return &rest.Config{
		Host: c.server.URL, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAData: ca, ServerName: "example.com"},
	}
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	serve, refusal, requests := c.serveSPDY, c.refuseSPDY, &c.spdys
	if websocket.IsWebSocketUpgrade(req) {
		serve, refusal, requests = c.serveWebSocket, c.refuseWebSocket, &c.websockets
	}
	requests.Add(1)
	query := req.URL.Query()
	switch {
	case req.Header.Get("Authorization") != "Bearer "+token:
		refuse(w, apierrors.NewUnauthorized("no token"))
	case req.URL.Path != "/api/v1/namespaces/ns/pods/pod/exec":
		refuse(w, apierrors.NewNotFound(corev1.Resource("pods"), req.URL.Path))
	case !slices.Equal(query["command"], command) || query.Get("container") != "agent" || query.Has("tty"):
		refuse(w, apierrors.NewBadRequest("what is "+req.URL.RawQuery))
	case refusal != nil:
		refuse(w, refusal)
	default:
		serve(w, req)
	}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.ErrStatus
	status.Kind, status.APIVersion = "Status", "v1"
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// channels are the streams of a command on a WebSocket. The first byte of each
// message is the number of its channel.
type channels struct {
	*websocket.Conn
	writing sync.Mutex
}

func (c *channels) writer(channel byte) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		c.writing.Lock()
		defer c.writing.Unlock()
		return len(p), c.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, p...))
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// stdin copies channel 0 to pod until the client closes it.
func (c *channels) stdin(pod io.Writer) {
	for {
		_, message, err := c.ReadMessage()
		if err != nil || bytes.Equal(message, []byte{remotecommand.StreamClose, 0}) {
			return
		}
		if len(message) > 0 && message[0] == 0 {
			_, _ = pod.Write(message[1:])
		}
	}
}

func (c *cluster) serveWebSocket(w http.ResponseWriter, req *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{remotecommand.StreamProtocolV5Name}}
	ws, err := upgrader.Upgrade(w, req, nil)
	if err != nil {
		return
	}
	defer func() { _ = ws.Close() }()
	streams := &channels{Conn: ws}
	c.run(streams.stdin, streams.writer(1), streams.writer(2), streams.writer(3))
	_ = ws.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
}

func (c *cluster) serveSPDY(w http.ResponseWriter, req *http.Request) {
	if _, err := httpstream.Handshake(req, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		return
	}
	opened := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, req, func(s httpstream.Stream, _ <-chan struct{}) error {
		opened <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer func() { _ = conn.Close() }()
	streams := map[string]httpstream.Stream{}
	for range cap(opened) {
		select {
		case s := <-opened:
			streams[s.Headers().Get(corev1.StreamType)] = s
		case <-conn.CloseChan():
			return
		}
	}
	c.run(func(pod io.Writer) { _, _ = io.Copy(pod, streams[corev1.StreamTypeStdin]) },
		streams[corev1.StreamTypeStdout], streams[corev1.StreamTypeStderr], streams[corev1.StreamTypeError])
	for _, s := range streams {
		_ = s.Close()
	}
	select {
	case <-conn.CloseChan():
	case <-req.Context().Done():
	}
}

// run runs the command. stdin closes its input when it ends; the command's result
// goes to status.
func (c *cluster) run(stdin func(pod io.Writer), stdout, stderr, status io.Writer) {
	pod, err := c.pod()
	if err != nil {
		_, _ = io.WriteString(stderr, err.Error()+"\n")
		_, _ = status.Write(encode(metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: "1"}}},
		}))
		return
	}
	defer func() { _ = pod.Close() }()
	go func() {
		stdin(pod)
		_ = pod.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(stdout, pod)
	_, _ = status.Write(encode(metav1.Status{Status: metav1.StatusSuccess}))
}

func encode(status metav1.Status) []byte {
	data, _ := json.Marshal(status) // its fields are always valid JSON
	return data
}

// listen serves each connection to an agent with serve until the test ends.
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
			go func() {
				defer func() { _ = conn.Close() }()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

func echo(conn net.Conn) { _, _ = io.Copy(conn, conn) }

// eachProtocol runs a test with a cluster for each protocol. Their agents serve
// their connections with serve.
func eachProtocol(t *testing.T, serve func(net.Conn), test func(*testing.T, *cluster)) {
	t.Helper()
	for name, force := range map[string]func(*cluster){
		"WebSocket": func(c *cluster) { c.refuseSPDY = apierrors.NewBadRequest("no SPDY") },
		"SPDY":      func(c *cluster) { c.refuseWebSocket = apierrors.NewBadRequest("no WebSocket") },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, listen(t, serve))
			force(c)
			test(t, c)
		})
	}
}

func dialConfig(ctx context.Context, config *rest.Config) (net.Conn, error) {
	d, err := New(config)
	if err != nil {
		return nil, err
	}
	return d.Dial(ctx, "ns", "pod", "agent", command...)
}

// dial opens a connection to the command of a cluster.
func dial(tb testing.TB, c *cluster) net.Conn {
	tb.Helper()
	conn, err := dialConfig(tb.Context(), c.config())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}
