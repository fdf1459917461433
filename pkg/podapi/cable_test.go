package podapi_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// hung bounds what a test waits for.
const hung = 2 * time.Minute

// A cable is the way to the agent of a sandbox of the test's own, which the test
// can cut.
type cable struct {
	*launcher.Local
	id, socket string

	mu      sync.Mutex
	conns   map[*cableConn]struct{}
	away    bool   // who connects is refused
	mute    bool   // what the agent says is not delivered
	deaf    bool   // what is sent to the agent does not arrive
	lost    []byte // what was sent and did not arrive
	left    int64  // bytes until the next cut
	cuts    int    // how many are to come
	mean    int64  // bytes between them
	made    int    // cuts so far
	changed sync.Cond
}

// newCable makes a sandbox and the way to it.
func newCable(t *testing.T) *cable {
	t.Helper()
	l := launchertest.Local(t)
	s, err := l.Launch(t.Context(), launcher.Spec{ID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	w := &cable{Local: l, id: t.Name(), conns: map[*cableConn]struct{}{}}
	w.changed.L = &w.mu
	sockets, err := filepath.Glob(filepath.Join(l.StateDir, "*", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the agent's socket: %q, %v", sockets, err)
	}
	// The kernel takes paths of 107 bytes.
	dir, err := os.MkdirTemp("", "wire")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.setMute(false)
		os.RemoveAll(dir)
	})
	w.socket = filepath.Join(dir, "s")
	if err := os.Symlink(sockets[0], w.socket); err != nil {
		t.Fatal(err)
	}
	return w
}

// client returns a client by the cable.
func (w *cable) client(t *testing.T) *podapi.Client {
	t.Helper()
	return dialed(t, podapi.DialOptions{Dial: w.dial})
}

// direct returns a client that the cable's cuts do not concern.
func (w *cable) direct(t *testing.T) *podapi.Client {
	t.Helper()
	return dialed(t, podapi.DialOptions{Dial: w.dialDirect})
}

func dialed(t *testing.T, opts podapi.DialOptions) *podapi.Client {
	t.Helper()
	client, err := podapi.Dial(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (w *cable) dialDirect(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", w.socket)
}

func (w *cable) dial(ctx context.Context) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, syscall.ECONNREFUSED
	}
	conn, err := w.dialDirect(ctx)
	if err != nil {
		return nil, err
	}
	c := &cableConn{Conn: conn, cable: w}
	w.conns[c] = struct{}{}
	return c, nil
}

// cut breaks the connections that there are.
func (w *cable) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.breakAll()
}

func (w *cable) breakAll() {
	for c := range w.conns {
		c.broken = true
		c.Conn.Close()
		delete(w.conns, c)
	}
	w.made++
	w.changed.Broadcast()
}

// cutOften has so many cuts come, each after a random number of bytes.
func (w *cable) cutOften(cuts int, mean int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts, w.mean = cuts, mean
	w.left = 1 + rand.Int64N(2*mean)
}

// pass returns how many of n bytes may pass before the next cut, which comes
// when there are none left.
func (w *cable) pass(c *cableConn, n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case c.broken:
		return 0
	case w.cuts == 0:
		return n
	case w.left == 0:
		w.cuts--
		w.left = 1 + rand.Int64N(2*w.mean)
		w.breakAll()
		return 0
	}
	n = int(min(int64(n), w.left))
	w.left -= int64(n)
	return n
}

func (w *cable) setAway(away bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = away
}

func (w *cable) setMute(mute bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mute = mute
	w.changed.Broadcast()
}

func (w *cable) setDeaf(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

// sink reports whether what is sent does not arrive.
func (w *cable) sink(c *cableConn, p []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.deaf || c.broken {
		return false
	}
	w.lost = append(w.lost, p...)
	return true
}

// sunk returns what was sent and did not arrive.
func (w *cable) sunk() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.lost)
}

// brokenBy returns what a reader has of a cut: of every other one an end like that
// of a connection that was closed.
func (w *cable) brokenBy() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made%2 == 0 {
		return io.EOF
	}
	return syscall.ECONNRESET
}

// awaitVoice waits until what the agent says may be delivered.
func (w *cable) awaitVoice(c *cableConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.mute && !c.broken {
		w.changed.Wait()
	}
}

// cableConn is a connection by a cable.
type cableConn struct {
	net.Conn
	cable  *cable
	broken bool
}

func (c *cableConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.cable.awaitVoice(c)
	if n > 0 {
		if n = c.cable.pass(c, n); n == 0 {
			return 0, c.cable.brokenBy()
		}
	}
	return n, err // the rest of what was read is lost with the next cut
}

func (c *cableConn) Write(p []byte) (int, error) {
	if c.cable.sink(c, p) {
		return len(p), nil
	}
	n := c.cable.pass(c, len(p))
	if n == 0 {
		return 0, syscall.EPIPE
	}
	n, err := c.Conn.Write(p[:n])
	if n < len(p) && err == nil {
		c.cable.pass(c, 1) // which cuts
		err = syscall.EPIPE
	}
	return n, err
}

// startPiped starts a command with pipes.
func startPiped(t *testing.T, cmd *podapi.Cmd) (io.WriteCloser, io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

// restart kills the agent and starts another.
func (w *cable) restart(t *testing.T) {
	t.Helper()
	w.kill(t)
	s, err := w.Open(t.Context(), w.id)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// kill kills the agent and returns when it has ended.
func (w *cable) kill(t *testing.T) {
	t.Helper()
	killAgent(t, w.direct(t))
	eventually(t, "the agent's end", func() bool {
		conn, err := w.dialDirect(t.Context())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

// killAgent kills the agent of a client.
func killAgent(t *testing.T, c *podapi.Client) {
	t.Helper()
	out, err := c.Shell(t.Context(), "echo $PPID").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hung); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v for %s", hung, what)
		}
	}
}

// leakCheck fails the test if goroutines are left when it has ended. It comes
// before what the test opens.
func leakCheck(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		for deadline := time.Now().Add(hung); runtime.NumGoroutine() > before; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				stacks := make([]byte, 1<<20)
				t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
			}
		}
	})
}
