package podapi_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file are about how connections to ports end.

func TestHalfCloseOfTheClient(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) {
		request, err := io.ReadAll(conn)
		fmt.Fprintf(conn, "got %q, %v", request, err)
	})
	conn := dialPort(t, newCable(t).client(t), port)
	if _, err := io.WriteString(conn, "request"); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "more"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after the end: %v", err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != `got "request", <nil>` {
		t.Errorf("the server answered %q, %v", answer, err)
	}
}

func TestHalfCloseOfTheServer(t *testing.T) {
	got := make(chan string, 1)
	port := serveEach(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "hello")
		_ = conn.CloseWrite()
		rest, err := io.ReadAll(conn)
		got <- fmt.Sprintf("got %q, %v", rest, err)
	})
	conn := dialPort(t, newCable(t).client(t), port)
	if hello, err := io.ReadAll(conn); err != nil || string(hello) != "hello" {
		t.Errorf("the server said %q, %v", hello, err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Errorf("a deadline after the end: %v", err)
	}
	if _, err := io.WriteString(conn, "still there"); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if got := <-got; got != `got "still there", <nil>` {
		t.Errorf("the server %s", got)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

func TestResetOfTheServerIsNoEnd(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "half an ans")
		_, _ = io.ReadFull(conn, make([]byte, 1)) // what was sent before a reset may be lost
		_ = conn.SetLinger(0)
	})
	conn := dialPort(t, newCable(t).client(t), port)
	got := make([]byte, 11)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "half an ans" {
		t.Fatalf("got %q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(got); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the read ended with %v", err)
	}
	if _, err := io.Copy(conn, strings.NewReader("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the write ended with %v", err)
	}
}

func TestAnswerOfAServerThatTakesNoMoreArrives(t *testing.T) {
	port := serveEach(t, func(conn *net.TCPConn) {
		_, _ = io.WriteString(conn, "too large")
		_, _ = io.CopyN(io.Discard, conn, 1<<20)
		// Closing with bytes that nobody has read is a reset.
	})
	c := newCable(t).client(t)
	for range 20 {
		conn := dialPort(t, c, port)
		written := make(chan error, 1)
		go func() {
			_, err := io.Copy(conn, io.LimitReader(zeros{}, 64<<20))
			written <- err
		}()
		got := make([]byte, 9)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "too large" {
			t.Fatalf("the server said %q, %v", got, err)
		}
		if err := <-written; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the write ended with %v", err)
		}
		conn.Close()
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestServerSeesHowTheClientEnds(t *testing.T) {
	ends := make(chan error, 1)
	port := serveEach(t, func(conn *net.TCPConn) {
		_, err := io.Copy(io.Discard, conn)
		ends <- err
	})
	w := newCable(t)
	for what, test := range map[string]struct {
		end  func(halfCloser)
		want error
	}{
		"Close":              {func(c halfCloser) { c.Close() }, nil},
		"Close with linger":  {func(c halfCloser) { _ = c.SetLinger(0); c.Close() }, syscall.ECONNRESET},
		"a cut on the way":   {func(halfCloser) { w.cut() }, syscall.ECONNRESET},
		"CloseWrite at last": {func(c halfCloser) { _ = c.CloseWrite() }, nil},
	} {
		conn := dialPort(t, w.client(t), port)
		if _, err := io.WriteString(conn, "begin"); err != nil {
			t.Fatal(err)
		}
		test.end(conn)
		if err := <-ends; !errors.Is(err, test.want) {
			t.Errorf("after %s the server sees %v", what, err)
		}
	}
}

// Who closes a connection and who wants a reset may be two, and the latter late: the server sees its end
// at once all the same.
func TestServerSeesACloseThatARaceMakesAReset(t *testing.T) {
	c := newCable(t).client(t)
	const many = 200
	ends := make(chan struct{}, many)
	port := serveEach(t, func(conn *net.TCPConn) {
		_, _ = conn.Read(make([]byte, 1))
		ends <- struct{}{}
	})
	for range many {
		conn := dialPort(t, c, port)
		go conn.Close()
		for conn.SetDeadline(time.Time{}) == nil { // until it has begun
		}
		_ = conn.SetLinger(0)
	}
	for i := range many {
		select {
		case <-ends:
		case <-time.After(hung / 4): // closeLinger is longer
			t.Fatalf("%d of %d connections do not end", many-i, many)
		}
	}
}

func TestConnectionThatIsCutFailsAndTheNextWorks(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	c, port := w.client(t), serveEach(t, echo)
	for what, strike := range map[string]func(){
		"a cut":                  w.cut,
		"a restart of the agent": func() { w.restart(t) },
	} {
		conn := dialPort(t, c, port)
		pingPong(t, conn)
		read := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		strike()
		if err := <-read; !errors.Is(err, podapi.ErrUnavailable) || !strings.Contains(err.Error(), "was cut, and cannot go on") {
			t.Errorf("after %s the read ended with %v", what, err)
		}
		if _, err := conn.Write([]byte("x")); !errors.Is(err, podapi.ErrUnavailable) {
			t.Errorf("after %s the write ended with %v", what, err)
		}
		conn.Close()
		eventually(t, "a connection after "+what, func() bool {
			next, err := c.Dial(t.Context(), port)
			if err != nil {
				return false
			}
			defer next.Close()
			pingPong(t, next)
			return true
		})
	}
}

func TestConnectionEndsWithItsClient(t *testing.T) {
	leakCheck(t)
	c := newCable(t).client(t)
	conn := dialPort(t, c, serveEach(t, echo))
	pingPong(t, conn)
	c.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, podapi.ErrUnavailable) || !strings.Contains(err.Error(), "the client was closed") {
		t.Errorf("the read ended with %v", err)
	}
}

// A server that speaks before it listens comes to what was sent to it, though
// nobody wants to hear it.
func TestClosedConnectionIsNotStuckInAServerThatSpeaksFirst(t *testing.T) {
	leakCheck(t)
	said := make(chan error, 1)
	port := serveEach(t, func(conn *net.TCPConn) {
		_, err := io.Copy(conn, io.LimitReader(zeros{}, 64<<20))
		said <- err
		_, _ = io.Copy(io.Discard, conn)
	})
	conn := dialPort(t, newCable(t).client(t), port)
	if err := conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(conn, zeros{}); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the server is not stuck: %d bytes were sent, %v", n, err)
	}
	conn.Close()
	select {
	case err := <-said:
		if err != nil { // the reset by which the client gives up
			t.Errorf("the server is interrupted: %v", err)
		}
	case <-time.After(hung):
		t.Error("the server is stuck after the connection was closed")
	}
}
