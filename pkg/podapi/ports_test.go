package podapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
)

// The servers of these tests are the test's own: a sandbox on this machine has
// this machine's ports.

// listen returns a listener and its port.
func listen(t *testing.T, address string) (net.Listener, int) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, l.Addr().(*net.TCPAddr).Port
}

// serveEach serves each connection in a goroutine, and returns the port. The
// connection is closed when serve returns.
func serveEach(t *testing.T, serve func(*net.TCPConn)) int {
	t.Helper()
	l, port := listen(t, "127.0.0.1:0")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return port
}

func echo(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }

// halfCloser is what connections to ports can do beside net.Conn's.
type halfCloser interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
}

func dialPort(t *testing.T, c *podapi.Client, port int) halfCloser {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel() // which concerns the dialing alone
	conn, err := c.Dial(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(halfCloser)
}

// pingPong checks that a connection to an echo works.
func pingPong(t *testing.T, conn net.Conn) {
	t.Helper()
	got := make([]byte, 4)
	if _, err := io.WriteString(conn, "ping"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "ping" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestConnectionToAPortKeepsTheContractOfNetConn(t *testing.T) {
	leakCheck(t)
	l, port := listen(t, "127.0.0.1:0")
	c := newCable(t).client(t)
	nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
		conn := dialPort(t, c, port)
		server, err := l.Accept()
		return conn, server, func() { conn.Close(); server.Close() }, err
	})
}

func TestConnectionToAPortHasAddresses(t *testing.T) {
	port := serveEach(t, echo)
	conn := dialPort(t, newCable(t).client(t), port)
	if got := conn.RemoteAddr(); got.String() != fmt.Sprint("127.0.0.1:", port) || got.Network() != "tcp" {
		t.Errorf("the server is %v", got)
	}
	if local, ok := conn.LocalAddr().(*net.TCPAddr); !ok || !local.IP.IsLoopback() || local.Port == 0 {
		t.Errorf("this end is %v", conn.LocalAddr())
	}
}

func TestDialReachesWhatListensAtAnyAddressOfTheSandbox(t *testing.T) {
	c := newCable(t).client(t)
	addresses := []string{"127.0.0.1:0", "[::1]:0", ":0"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range all {
		if ip := addr.(*net.IPNet).IP; ip.IsGlobalUnicast() {
			addresses = append(addresses, net.JoinHostPort(ip.String(), "0"))
			break
		}
	}
	for _, address := range addresses {
		l, port := listen(t, address)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, _ = io.Copy(conn, conn)
			}
		}()
		pingPong(t, dialPort(t, c, port))
	}
}

func TestDialOfWhatCannotBe(t *testing.T) {
	c := newCable(t).client(t)
	l, free := listen(t, "127.0.0.1:0")
	l.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for what, test := range map[string]struct {
		ctx  context.Context
		port int
		want error
	}{
		"a port where nothing listens": {t.Context(), free, syscall.ECONNREFUSED},
		"port 0":                       {t.Context(), 0, syscall.EINVAL},
		"port 65536":                   {t.Context(), 65536, syscall.EINVAL},
		"a negative port":              {t.Context(), -1, syscall.EINVAL},
		"a context that has ended":     {cancelled, free, context.Canceled},
	} {
		conn, err := c.Dial(test.ctx, test.port)
		var op *net.OpError
		if conn != nil || !errors.Is(err, test.want) || !errors.As(err, &op) || op.Op != "dial" {
			t.Errorf("%s: %v, %v", what, conn, err)
		}
	}
	if _, err := c.Dial(t.Context(), free); err == nil || err.Error() != fmt.Sprintf("dial tcp 127.0.0.1:%d: connection refused", free) {
		t.Errorf("the error reads %q", err)
	}
}

func TestDialOfAnAgentThatCannotSaysToUpdateIt(t *testing.T) {
	dir, err := os.MkdirTemp("", "old") // a short one, for the kernel
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer() // as an agent without the service
	t.Cleanup(server.Stop)
	go func() { _ = server.Serve(l) }()
	c := dialed(t, podapi.DialOptions{Dial: func(context.Context) (net.Conn, error) { return net.Dial("unix", l.Addr().String()) }})
	_, err = c.Dial(t.Context(), 80)
	if !errors.Is(err, podapi.ErrVersion) || !strings.HasSuffix(err.Error(), "the agent cannot connect to ports: update the agent's image") {
		t.Errorf("got %v", err)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	leakCheck(t)
	// Nobody accepts, and when the backlog is full nobody is answered.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		defer syscall.Close(fd)
		err = syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = syscall.Listen(fd, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	c, port := newCable(t).client(t), name.(*syscall.SockaddrInet4).Port
	full := false
	for range 10 {
		conn, err := dialUntilStuck(t, c, port)
		if full = errors.Is(err, context.Canceled); full {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	if !full {
		t.Fatal("the backlog is never full")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Dial(ctx, port); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
}

// dialUntilStuck dials, and cancels once the kernel awaits an answer.
func dialUntilStuck(t *testing.T, c *podapi.Client, port int) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		conn net.Conn
		err  error
	}
	dialed := make(chan result, 1)
	go func() {
		conn, err := c.Dial(ctx, port)
		dialed <- result{conn, err}
	}()
	eventually(t, "a connection, or none", func() bool { return len(dialed) > 0 || isUnanswered(t, port) })
	cancel()
	got := <-dialed
	return got.conn, got.err
}

// isUnanswered reports whether somebody awaits the answer of a port, in the state
// SYN_SENT of proc_net_tcp(5).
func isUnanswered(t *testing.T, port int) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(table), fmt.Sprintf(":%04X 02 ", port))
}

func TestConnectionOutlivesTheContextOfItsDial(t *testing.T) {
	port := serveEach(t, echo)
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := newCable(t).client(t).Dial(ctx, port)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	pingPong(t, conn)
	cancel()
	pingPong(t, conn)
}
