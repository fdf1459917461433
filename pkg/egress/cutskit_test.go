package egress

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// cable is a way to the agent of a sandbox that the test can cut. The sandbox's own client has
// another.
type cable struct {
	*launcher.Sandbox
	socket string

	mu    sync.Mutex
	conns []net.Conn
	left  int64 // bytes until the next cut; 0 means that none comes
}

func newCable(t testing.TB) *cable {
	t.Helper()
	l := launchertest.Local(t)
	sandbox, err := l.Launch(t.Context(), launcher.Spec{ID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	sockets, err := filepath.Glob(filepath.Join(l.StateDir, "*", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the agent's socket: %q, %v", sockets, err)
	}
	dir, err := os.MkdirTemp("", "cable") // the kernel takes paths of 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &cable{Sandbox: sandbox, socket: filepath.Join(dir, "s")}
	if err := os.Symlink(sockets[0], c.socket); err != nil {
		t.Fatal(err)
	}
	return c
}

// client calls the agent by the cable.
func (c *cable) client(t testing.TB) *podapi.Client {
	t.Helper()
	client, err := podapi.Dial(podapi.DialOptions{Dial: c.dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (c *cable) dial(ctx context.Context) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, conn)
	return &cableConn{conn, c}, nil
}

// cut ends all connections by the cable.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutNow()
}

func (c *cable) cutNow() {
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns, c.left = nil, 0
}

// cutAfter has a cut come when so many bytes were sent to the agent.
func (c *cable) cutAfter(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = n
}

// pass returns how many of n bytes may pass.
func (c *cable) pass(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return n
	}
	n = int(min(int64(n), c.left))
	if c.left -= int64(n); c.left == 0 {
		c.cutNow()
		return 0
	}
	return n
}

type cableConn struct {
	net.Conn
	cable *cable
}

func (c *cableConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p[:c.cable.pass(len(p))])
	if n < len(p) && err == nil {
		err = syscall.EPIPE
	}
	return n, err
}

// source serves the first bytes of its content, as many as size in the query says, in the ways that HTTP
// has to end a body: /length, /chunked, and /close, which ends with the connection.
type source struct {
	content []byte

	mu   sync.Mutex
	half func() // see atHalf
}

func newSource(size int) *source {
	s := &source{content: make([]byte, size)}
	_, _ = rand.NewChaCha8([32]byte{}).Read(s.content) // it can't fail
	return s
}

// sum returns the digest of so much of the content, in hexadecimal.
func (s *source) sum(size int) string { return fmt.Sprintf("%x", sha256.Sum256(s.content[:size])) }

// atHalf has half be called when half of the next body is sent, and hold up the rest.
func (s *source) atHalf(half func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.half = half
}

func (s *source) reachHalf() {
	s.mu.Lock()
	half := s.half
	s.half = nil
	s.mu.Unlock()
	if half != nil {
		half()
	}
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, err := strconv.Atoi(r.URL.Query().Get("size"))
	if err != nil {
		panic(err)
	}
	content := s.content[:size]
	switch r.URL.Path {
	case "/close":
		s.sendUntilClose(w, content)
		return
	case "/length":
		w.Header().Set("Content-Length", fmt.Sprint(size))
	}
	s.send(w, content, w.(http.Flusher).Flush)
}

// send sends content. Its errors are those of cuts, which the other side shows.
func (s *source) send(w io.Writer, content []byte, flush func()) {
	_, err := w.Write(content[:len(content)/2])
	flush()
	if s.reachHalf(); err == nil {
		_, _ = w.Write(content[len(content)/2:])
	}
}

func (s *source) sendUntilClose(w http.ResponseWriter, content []byte) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
	s.send(conn, content, func() {})
}
