package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// tunnels opens a tunnel to a port by CONNECT and by SOCKS5.
func (f *front) tunnels(t *testing.T, port int, each func(t *testing.T, conn *net.TCPConn)) {
	t.Run("connect", func(t *testing.T) {
		response, conn := f.connect(t, fmt.Sprintf("allowed.test:%d", port))
		if response.StatusCode != 200 {
			t.Fatal(response.Status)
		}
		each(t, conn)
	})
	t.Run("socks5", func(t *testing.T) {
		reply, conn := f.socks(t, "allowed.test", port)
		if reply != socksSucceeded {
			t.Fatal(reply)
		}
		each(t, conn)
	})
}

func TestHalfClosesPass(t *testing.T) {
	after := make(chan string, 1)
	port := serveEach(t, func(conn *net.TCPConn) {
		request, _ := io.ReadAll(conn) // up to the client's end
		fmt.Fprintf(conn, "got %s", request)
	})
	other := serveEach(t, func(conn *net.TCPConn) {
		fmt.Fprint(conn, "all")
		_ = conn.CloseWrite()
		rest, _ := io.ReadAll(conn)
		after <- string(rest)
	})
	f := newFront(t, Options{}, named("allowed.test", port), named("allowed.test", other))
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		fmt.Fprint(conn, "request")
		_ = conn.CloseWrite()
		if answer := body(t, conn); answer != "got request" {
			t.Errorf("got %q", answer)
		}
	})
	f.tunnels(t, other, func(t *testing.T, conn *net.TCPConn) {
		if answer := body(t, conn); answer != "all" {
			t.Errorf("got %q", answer)
		}
		fmt.Fprint(conn, "still there")
		_ = conn.CloseWrite()
		if rest := <-after; rest != "still there" {
			t.Errorf("the host got %q", rest)
		}
	})
}

func TestResetsPass(t *testing.T) {
	saw := make(chan error, 1)
	port := serveEach(t, func(conn *net.TCPConn) {
		b := make([]byte, 1)
		_, _ = conn.Read(b)
		if b[0] == 'r' {
			_ = conn.SetLinger(0) // and close
			return
		}
		fmt.Fprint(conn, "now")
		_, err := conn.Read(b)
		saw <- err
	})
	f := newFront(t, Options{}, named("allowed.test", port))
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		fmt.Fprint(conn, "r")
		if _, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client saw %v", err)
		}
	})
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		fmt.Fprint(conn, "x")
		if _, err := io.ReadFull(conn, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetLinger(0)
		conn.Close()
		if err := <-saw; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the host saw %v", err)
		}
	})
}

func TestAllBytesPassBothWays(t *testing.T) {
	const size = 16 << 20
	port := serveEach(t, func(conn *net.TCPConn) { _, _ = io.Copy(struct{ io.Writer }{conn}, conn) })
	f := newFront(t, Options{}, named("allowed.test", port))
	sent := bytes.Repeat([]byte("0123456789abcdef\n"), size/17)
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.CloseWrite()
		}()
		if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("got %d bytes of %d, %v", len(got), len(sent), err)
		}
	})
}

func TestPolicyChangesReachClientsThatDoNotRead(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) { _, _ = io.Copy(struct{ io.Writer }{conn}, zeros{}) })
	f := newFront(t, Options{}, named("allowed.test", port))
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		f.SetPolicy(Policy{})
		defer f.SetPolicy(policyOf(t, named("allowed.test", port)))
		for deadline := time.Now().Add(hung); ; {
			f.proxy.mu.Lock()
			open := len(f.proxy.open)
			f.proxy.mu.Unlock()
			if open == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the client is still there")
			}
		}
	})
}

// rebinding answers first with an address that is allowed, then with another.
type rebinding struct {
	asked atomic.Int32
	host  atomic.Value
}

func (r *rebinding) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.host.Store(host)
	if r.asked.Add(1) == 1 {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	return []netip.Addr{netip.MustParseAddr("169.254.169.254")}, nil
}

func TestTheCheckedAddressIsDialled(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) { fmt.Fprint(conn, "here") })
	r := &rebinding{}
	f := newFront(t, Options{Resolver: r}, "rebinding.test:*", fmt.Sprintf("127.0.0.1:%d", port))
	response, conn := f.connect(t, fmt.Sprintf("rebinding.test:%d", port))
	if response.StatusCode != 200 || body(t, conn) != "here" {
		t.Fatal(response.Status)
	}
	if asked := r.asked.Load(); asked != 1 || r.host.Load() != "rebinding.test." {
		t.Errorf("%d lookups, of %q", asked, r.host.Load())
	}
	response, _ = f.connect(t, fmt.Sprintf("rebinding.test:%d", port))
	if text := body(t, response.Body); response.StatusCode != 403 || !strings.Contains(text, "an address that is link-local") {
		t.Errorf("then %s\n%s", response.Status, text)
	}
	if d := f.decision(1); !strings.Contains(d.Reason, "169.254.169.254") {
		t.Errorf("the log says %+v", d)
	}
}

func TestDeniedNamesAreNotLookedUp(t *testing.T) {
	r := &rebinding{}
	f := newFront(t, Options{Resolver: r}, "allowed.test", "*.allowed.test:8443")
	for _, host := range []string{"secret-bytes.evil.test:443", "x.allowed.test:443", "allowed.test:53"} {
		if response, _ := f.connect(t, host); response.StatusCode != 403 {
			t.Errorf("%s: %s", host, response.Status)
		}
		name, _, _ := strings.Cut(host, ":")
		if reply, _ := f.socks(t, name, 53); reply != socksNotAllowed {
			t.Errorf("%s: reply %d", host, reply)
		}
	}
	if r.asked.Load() != 0 {
		t.Errorf("the resolver was asked for %q", r.host.Load())
	}
}

func TestTooManyConnections(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) { fmt.Fprint(conn, "x"); _, _ = io.Copy(io.Discard, conn) })
	f := newFront(t, Options{}, named("allowed.test", port))
	conns := make([]*net.TCPConn, mostConnections)
	for i := range conns {
		reply, conn := f.socks(t, "allowed.test", port)
		if reply != socksSucceeded {
			t.Fatalf("connection %d: reply %d", i, reply)
		}
		conns[i] = conn
	}
	if response, _ := f.connect(t, fmt.Sprintf("allowed.test:%d", port)); response.StatusCode != 503 {
		t.Errorf("one more: %s", response.Status)
	}
	if d := f.decision(mostConnections); d.Verdict != Denied || d.Reason != errTooMany.Error() {
		t.Errorf("got %+v", d)
	}
	if _, err := io.ReadFull(conns[0], make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conns[0].Close()
	for { // until the proxy has seen that
		if response, _ := f.connect(t, fmt.Sprintf("allowed.test:%d", port)); response.StatusCode == 200 {
			break
		}
	}
}

func TestCloseEndsAllConnections(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &front{addr: l.Addr().String(), Server: start(t.Context(), l, Options{Policy: policyOf(t, named("allowed.test", port))}, nil)}
	var conns []*net.TCPConn
	f.tunnels(t, port, func(t *testing.T, conn *net.TCPConn) {
		file, err := conn.File() // the test's own end closes conn
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		again, err := net.FileConn(file)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, again.(*net.TCPConn))
	})
	waiting, halfway := f.dial(t), f.dial(t)
	fmt.Fprint(halfway, "GET http://allo")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for i, conn := range append(conns, waiting, halfway) {
		defer conn.Close()
		var timeout net.Error
		if _, err := io.ReadAll(conn); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("connection %d is still open", i)
		}
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("the listener is still open")
	}
}

func TestOnlyMovingConnectionsHaveLargeBuffers(t *testing.T) {
	var b flowBuffer
	for i, c := range []struct{ got, want int }{{1, idleBuffer}, {idleBuffer, idleBuffer}, {copyBuffer, copyBuffer}, {1, copyBuffer}, {1, idleBuffer}} {
		if n := len(b.next()); n != c.want {
			t.Errorf("read %d has a buffer of %d bytes, want %d", i, n, c.want)
		}
		b.got(c.got)
	}
	if b.next(); b.large != nil {
		t.Error("a large buffer is kept")
	}
}
