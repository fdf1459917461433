package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// conn is a connection whose directions end one by one.
type conn interface {
	net.Conn
	CloseWrite() error
	SetLinger(sec int) error
}

// connect connects to the proxy in a sandbox, as programs there do, and asks for a host.
func connect(t testing.TB, sandbox *launcher.Sandbox, hostport string) (*http.Response, conn) {
	t.Helper()
	info, err := sandbox.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := sandbox.Dial(context.Background(), info.Egress.Port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", hostport)
	response, err := http.ReadResponse(bufio.NewReaderSize(byByte{c}, 16), &http.Request{Method: "CONNECT"})
	if err != nil {
		t.Fatal(err)
	}
	return response, c.(conn)
}

// byByte reads no byte ahead.
type byByte struct{ io.Reader }

func (r byByte) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

// host serves each connection to a host, and returns the rule that allows it, and its port.
func host(t testing.TB, serve func(*net.TCPConn)) (egress.Policy, int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c.(*net.TCPConn))
			}()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	return policy(t, fmt.Sprintf("allowed.test=127.0.0.1:%d", port)), port
}

func TestEndsPassFromSandboxToHostAndBack(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	saw := make(chan error, 1)
	allowed, port := host(t, func(c *net.TCPConn) {
		b := make([]byte, 1)
		_, _ = io.ReadFull(c, b)
		switch b[0] {
		case 'e':
			rest, _ := io.ReadAll(c)
			fmt.Fprintf(c, "got %s", rest)
		case 'r':
			_ = c.SetLinger(0)
		case 'w':
			_, _ = c.Write(b)
			_, err := c.Read(b)
			saw <- err
		}
	})
	server := serve(t, sandbox, egress.Options{Policy: allowed})
	at := fmt.Sprintf("allowed.test:%d", port)
	open := func(kind string) conn {
		response, c := connect(t, sandbox, at)
		if response.StatusCode != 200 {
			t.Fatal(response.Status)
		}
		fmt.Fprint(c, kind)
		return c
	}
	c := open("e")
	fmt.Fprint(c, "all")
	_ = c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "got all" || err != nil {
		t.Errorf("after a half-close: %q, %v", got, err)
	}
	if got, err := io.ReadAll(open("r")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the host's reset: %q, %v", got, err)
	}
	c = open("w")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = c.SetLinger(0)
	c.Close()
	if err := <-saw; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the program's reset, the host saw %v", err)
	}
	c = open("w")
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	server.SetPolicy(egress.Policy{})
	if got, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a change of the policy: %q, %v", got, err)
	}
	<-saw
	if response, _ := connect(t, sandbox, at); response.StatusCode != 403 {
		t.Errorf("then %s", response.Status)
	}
}

func TestUploadsOfASandboxArriveWhole(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	data := make([]byte, 4<<20)
	_, _ = rand.Read(data)
	if err := sandbox.WriteFile(t.Context(), "data", data, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		_, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x %v", h.Sum(nil), err)
	}))
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	serve(t, sandbox, egress.Options{Policy: policy(t, fmt.Sprintf("allowed.test=127.0.0.1:%d", port))})
	url := fmt.Sprintf("http://allowed.test:%d/", port)
	for _, args := range [][]string{
		{"--data-binary", "@data", "-H", "Expect: 100-continue"},
		{"-T", "data", "-H", "Transfer-Encoding: chunked"},
		{"-T", "data", "--proxytunnel"},
	} {
		if got := curl(t, sandbox, append(args, url)...); got != sum+" <nil><nil>" {
			t.Errorf("curl %v: %s", args, got)
		}
	}
}

// BenchmarkDownloadThroughASandbox gets 64 MiB from a host by the way out of a sandbox, and by
// Dial from the same server, as if it were in the sandbox.
func BenchmarkDownloadThroughASandbox(b *testing.B) {
	const size = 64 << 20
	sandbox := launchertest.Sandbox(b)
	chunk := bytes.Repeat([]byte("x"), 64<<10)
	allowed, port := host(b, func(c *net.TCPConn) {
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
		_ = c.CloseWrite()
		_, _ = io.Copy(io.Discard, c) // a close with something unread would be a reset
	})
	serve(b, sandbox, egress.Options{Policy: allowed})
	b.Run("way-out", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			out, err := sandbox.Command(b.Context(), "curl", "-sS", "--proxytunnel", "--http0.9", "-o", "/dev/null", "-w", "%{size_download}", fmt.Sprintf("http://allowed.test:%d/", port)).CombinedOutput()
			if string(out) != fmt.Sprint(size) || err != nil {
				b.Fatalf("%s, %v", out, err)
			}
		}
	})
	b.Run("dial", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			c, err := sandbox.Dial(b.Context(), port)
			if err != nil {
				b.Fatal(err)
			}
			if n, err := io.Copy(struct{ io.Writer }{io.Discard}, c); n != size || err != nil {
				b.Fatal(n, err)
			}
			c.Close()
		}
	})
}
