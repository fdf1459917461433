package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// forwarding is a forwarded port of this machine.
type forwarding struct {
	address string
	cancel  context.CancelFunc
	ended   chan error

	mu     sync.Mutex
	failed []error
}

func forward(t *testing.T, s *launcher.Sandbox, port int) *forwarding {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	f := &forwarding{address: l.Addr().String(), cancel: cancel, ended: make(chan error, 1)}
	go func() { f.ended <- s.Forward(ctx, l, port, f.report) }()
	return f
}

func (f *forwarding) report(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, err)
}

// failures returns how connections have failed so far.
func (f *forwarding) failures() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.failed)
}

// end ends the forward. That is not a failure of connections.
func (f *forwarding) end(t *testing.T) {
	t.Helper()
	before := f.failures()
	f.cancel()
	select {
	case err := <-f.ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the forward ended with %v", err)
		}
	case <-time.After(harness.Hung):
		t.Fatal("the forward did not end with its context")
	}
	if after := f.failures(); len(after) > len(before) {
		t.Errorf("at its end connections failed: %v", after[len(before):])
	}
}

func dialTCP(t *testing.T, address string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

func TestForwardJoinsLocalConnectionsWithAPort(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		const size = 1 << 20
		f := forward(t, s, ports["sum"])
		var all sync.WaitGroup
		for i := range 8 {
			conn := dialTCP(t, f.address)
			all.Go(func() {
				_, _ = io.Copy(conn, harness.Pattern(size, uint64(i)))
				_ = conn.CloseWrite()
				want, _ := harness.SHA(t, harness.Pattern(size, uint64(i)))
				if got, err := io.ReadAll(conn); string(got) != fmt.Sprintf("%s %d <nil>", want, size) || err != nil {
					t.Errorf("got %q, %v", got, err)
				}
			})
		}
		all.Wait()
		open := dialTCP(t, f.address)
		f.end(t)
		if failed := f.failures(); len(failed) > 0 {
			t.Errorf("connections failed: %v", failed)
		}
		if n, err := io.Copy(io.Discard, open); n > 0 || err == nil {
			t.Errorf("a connection that was open at the end: %d bytes, %v", n, err)
		}
	})
}

func TestForwardPassesOnHowTheServerEnds(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		// The server ends its direction, and reads on.
		f := forward(t, s, ports["first"])
		conn := dialTCP(t, f.address)
		if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		_, err := io.WriteString(conn, "still there")
		if err := errors.Join(err, conn.Close()); err != nil {
			t.Error(err)
		}
		client := browser(t, s, ports["http"])
		harness.Await(t, "the server's end", func() bool { return fetch(t, client, "/last") == "still there, <nil>" })
		if failed := f.failures(); len(failed) > 0 {
			t.Errorf("connections failed: %v", failed)
		}
		f.end(t)
		// The server resets the connection, or does not listen.
		for port, want := range map[int]error{ports["reset"]: syscall.ECONNRESET, 1: syscall.ECONNREFUSED} {
			f := forward(t, s, port)
			conn, err := net.Dial("tcp", f.address)
			if err == nil { // otherwise it was reset before
				_, sent := io.WriteString(conn, "x")
				_, err = io.ReadAll(conn)
				err = errors.Join(sent, err) // either may get the error
				conn.Close()
			}
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("port %d: the connection ended with %v", port, err)
			}
			harness.Await(t, "what is said of it", func() bool { return len(f.failures()) > 0 })
			if failed := f.failures(); len(failed) != 1 || !errors.Is(failed[0], want) {
				t.Errorf("port %d: connections failed: %v", port, failed)
			}
			f.end(t)
		}
	})
}
