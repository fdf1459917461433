package execstream

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for something that must happen.
const patience = 2 * time.Minute

func TestBytesBothWays(t *testing.T) {
	const size = 32 << 20
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		sent, got := sha256.New(), sha256.New()
		written := make(chan error, 1)
		go func() {
			_, err := io.CopyN(io.MultiWriter(conn, sent), rand.Reader, size)
			written <- err
		}()
		if _, err := io.CopyN(got, conn, size); err != nil {
			t.Fatal(err)
		}
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
			t.Error("the bytes that came back differ from those sent")
		}
	})
}

// This is the whole contract of net.Conn: deadlines, concurrent use, and the
// arrival of everything that was written before Close.
func TestContract(t *testing.T) {
	accepted := make(chan net.Conn)
	serve := func(conn net.Conn) {
		accepted <- conn
		<-t.Context().Done()
	}
	eachProtocol(t, serve, func(t *testing.T, c *cluster) {
		nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
			conn := dial(t, c)
			pod := <-accepted
			return conn, pod, func() { _, _ = conn.Close(), pod.Close() }, nil
		})
	})
}

func TestWebSocketComesFirst(t *testing.T) {
	c := newCluster(t, listen(t, echo))
	dial(t, c)
	if ws, spdy := c.websockets.Load(), c.spdys.Load(); ws != 1 || spdy != 0 {
		t.Errorf("%d requests for WebSocket, %d for SPDY", ws, spdy)
	}
}

func TestCommandsEndIsEOF(t *testing.T) {
	const text = "all there is"
	serve := func(conn net.Conn) { _, _ = io.WriteString(conn, text) }
	eachProtocol(t, serve, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		if got, err := io.ReadAll(conn); string(got) != text || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after it: %v", err)
		}
	})
}

// The agent sees the end of the input, and only then does the command end.
func TestCloseEndsTheInput(t *testing.T) {
	got := make(chan string, 1)
	serve := func(conn net.Conn) {
		data, _ := io.ReadAll(conn)
		got <- string(data)
	}
	eachProtocol(t, serve, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		if _, err := io.WriteString(conn, "the last words"); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		select {
		case data := <-got:
			if data != "the last words" {
				t.Errorf("the agent got %q", data)
			}
		case <-time.After(patience):
			t.Error("the input did not end")
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after it: %v", err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write after it: %v", err)
		}
	})
}

func TestFailureHasWhatTheCommandSaid(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		c.pod = func() (net.Conn, error) { return nil, errors.New("podagent: cannot reach the agent") }
		conn, err := dialConfig(t.Context(), c.config())
		if err == nil { // otherwise it ended at once
			_, err = conn.Read(make([]byte, 1))
		}
		if err == nil || err == io.EOF || !strings.Contains(err.Error(), "podagent: cannot reach the agent: command terminated with exit code 1") {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestCutIsNoEOF(t *testing.T) {
	c := newCluster(t, listen(t, echo))
	conn := dial(t, c)
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	c.cut()
	if _, err := conn.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a read after the cut: %v", err)
	}
}

func TestRefusalsKeepTheirClass(t *testing.T) {
	for name, r := range map[string]struct {
		err *apierrors.StatusError
		is  func(error) bool
	}{
		"forbidden":   {apierrors.NewForbidden(corev1.Resource("pods/exec"), "pod", errors.New("x")), apierrors.IsForbidden},
		"not found":   {apierrors.NewNotFound(corev1.Resource("pods"), "pod"), apierrors.IsNotFound},
		"bad request": {apierrors.NewBadRequest("pod does not run"), apierrors.IsBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, listen(t, echo))
			c.refuseWebSocket, c.refuseSPDY = r.err, r.err
			_, err := dialConfig(t.Context(), c.config())
			if !r.is(err) || !strings.Contains(err.Error(), r.err.ErrStatus.Message) {
				t.Errorf("refused by %v", err)
			}
		})
	}
	c := newCluster(t, listen(t, echo))
	config := c.config()
	config.BearerToken = "wrong"
	if _, err := dialConfig(t.Context(), config); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
	d, err := New(c.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range []string{"", "../other", "a/b"} {
		if _, err := d.Dial(t.Context(), "ns", pod, "agent", command...); err == nil {
			t.Errorf("it runs in pod %q", pod)
		}
	}
}

// The context ends a Dial whose server falls silent, and the Dial leaves nothing
// behind.
func TestContextEndsDial(t *testing.T) {
	asked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		close(asked)
		<-req.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := dialConfig(ctx, &rest.Config{Host: server.URL}); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial: %v", err)
	}
	noneLeft(t)
}

func TestClosedConnectionsLeaveNoGoroutine(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		for range 10 {
			if err := dial(t, c).Close(); err != nil {
				t.Error(err)
			}
		}
		noneLeft(t)
	})
}

// noneLeft waits until no goroutine of a connection is left.
func noneLeft(t *testing.T) {
	t.Helper()
	buf := make([]byte, 1<<20)
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		stacks := string(buf[:runtime.Stack(buf, true)])
		if !strings.Contains(stacks, "internal/execstream.(*conn)") && !strings.Contains(stacks, "internal/execstream.(*std") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("goroutines are left after %v: %s", patience, stacks)
		}
	}
}
