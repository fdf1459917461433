package portforward

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/nettest"
	"k8s.io/streaming/pkg/httpstream"
)

func TestBytesBothWays(t *testing.T) {
	const size = 64 << 20
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

// A frame's header and payload are one write, and so one TLS record.
func TestSmallWriteIsOneRecord(t *testing.T) {
	const writes = 200
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		before := c.records.Load()
		for range writes {
			ping(t, conn, "sixty-four bytes or so")
		}
		if got := c.records.Load() - before; got > writes+2 {
			t.Errorf("%d writes were %d records", writes, got)
		}
	})
}

// Data that is written while the link is busy is sent together.
func TestWritesGather(t *testing.T) {
	const writes = 1000
	b := newOutbox(new(bufferPool))
	link := &slowWriter{first: make(chan struct{}), release: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- b.run(link) }()
	_, _ = b.write([]byte("x"))
	<-link.first
	for range writes {
		if n, err := b.write([]byte("0123456789")); n != 10 || err != nil {
			t.Fatal(n, err)
		}
	}
	close(link.release)
	b.flush()
	b.finish(net.ErrClosed, nil)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if want := 2*headerSize + 1 + 10*writes; link.writes != 2 || link.bytes != want {
		t.Errorf("%d bytes left in %d writes, not %d in 2", link.bytes, link.writes, want)
	}
}

// slowWriter holds up its first write.
type slowWriter struct {
	first, release chan struct{}
	writes, bytes  int
}

func (w *slowWriter) Write(p []byte) (int, error) {
	if w.writes++; w.writes == 1 {
		close(w.first)
		<-w.release
	}
	w.bytes += len(p)
	return len(p), nil
}

func TestPodsCloseIsEOF(t *testing.T) {
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

func TestNobodyListens(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		closed := closedPort(t)
		c.pod = func(string) (net.Conn, error) { return net.Dial("tcp", closed) }
		wantRemoteError(t, c, "error forwarding port: dial tcp", true)
	})
}

func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func TestTextOfTheNode(t *testing.T) {
	const text = "the sandbox is gone"
	ends := map[string]func(conn httpstream.Connection, data, errs httpstream.Stream){
		"and nothing more": func(httpstream.Connection, httpstream.Stream, httpstream.Stream) {},
		"then both end":    func(_ httpstream.Connection, data, errs httpstream.Stream) { _, _ = errs.Close(), data.Close() },
		"then a reset":     func(_ httpstream.Connection, data, _ httpstream.Stream) { _ = data.Reset() },
		"then the link":    func(conn httpstream.Connection, _, _ httpstream.Stream) { _ = conn.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			eachProtocol(t, echo, func(t *testing.T, c *cluster) {
				c.afterwards = func(conn httpstream.Connection, data, errs httpstream.Stream) {
					_, _ = io.WriteString(errs, text)
					end(conn, data, errs)
				}
				wantRemoteError(t, c, text, false)
			})
		})
	}
}

// The text may come after the end of the data, which is then not a clean end.
func TestTextOfTheNodeAfterTheData(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		c.afterwards = func(_ httpstream.Connection, data, errs httpstream.Stream) {
			_ = data.Close()
			_, _ = io.WriteString(errs, "too late")
			_ = errs.Close()
		}
		wantRemoteError(t, c, "too late", false)
	})
}

func wantRemoteError(t *testing.T, c *cluster, text string, refused bool) {
	t.Helper()
	for _, err := range failures(t, c) {
		var remote *RemoteError
		if !errors.As(err, &remote) || !strings.Contains(remote.Text, text) {
			t.Fatalf("error %v is not the text %q", err, text)
		}
		if errors.Is(err, syscall.ECONNREFUSED) != refused {
			t.Errorf("error %v is refused: %v", err, !refused)
		}
	}
}

// failures returns the errors of a read and then a write, or the error of Dial, if
// the node sent the end before Dial returned.
func failures(t *testing.T, c *cluster) []error {
	t.Helper()
	conn, err := newDialer(t, c).Dial(t.Context(), "ns", "pod", 8080)
	if err != nil {
		return []error{err}
	}
	defer func() { _ = conn.Close() }()
	_, readErr := conn.Read(make([]byte, 1))
	_, writeErr := conn.Write([]byte("x"))
	return []error{readErr, writeErr}
}

func TestResetIsNotEOF(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		c.afterwards = func(_ httpstream.Connection, data, _ httpstream.Stream) { _ = data.Reset() }
		for _, err := range failures(t, c) {
			wantBroken(t, err)
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("error %v of a reset", err)
			}
		}
	})
}

func TestLostLinkIsNotEOF(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		ping(t, conn, "hello")
		c.cut()
		_, err := conn.Read(make([]byte, 1))
		wantBroken(t, err)
		_, err = conn.Write([]byte("x"))
		wantBroken(t, err)
	})
}

func TestNodeThatGoesAwayIsNotEOF(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		c.afterwards = func(conn httpstream.Connection, data, errs httpstream.Stream) {
			conn.RemoveStreams(data, errs) // so that they are not reset
			_ = conn.Close()
		}
		for _, err := range failures(t, c) {
			wantBroken(t, err)
		}
	})
}

// A node that sends streams which a port-forward does not have ends the connection.
func TestStreamsOfTheNode(t *testing.T) {
	eachProtocol(t, echo, func(t *testing.T, c *cluster) {
		c.afterwards = func(conn httpstream.Connection, _, _ httpstream.Stream) {
			_, _ = conn.CreateStream(http.Header{})
		}
		for _, err := range failures(t, c) {
			wantBroken(t, err)
		}
	})
}

// wantBroken checks that err is neither a clean end, nor the node's text, nor the
// effect of Close.
func wantBroken(t *testing.T, err error) {
	t.Helper()
	var remote *RemoteError
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &remote) || errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v of a broken connection", err)
	}
}

// Close ends a waiting read, and a write to a pod that does not read.
func TestCloseUnblocks(t *testing.T) {
	stuck := func(net.Conn) { <-t.Context().Done() }
	eachProtocol(t, stuck, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		ended := make(chan error, 2)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
		writing := make(chan struct{})
		go func() {
			_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			for err := error(nil); err == nil; { // until every buffer is full
				_, err = conn.Write(make([]byte, 1<<20))
			}
			_ = conn.SetWriteDeadline(time.Time{})
			close(writing)
			err := error(nil)
			for err == nil { // a deadline that came early left some room
				_, err = conn.Write(make([]byte, 1<<20))
			}
			ended <- err
		}()
		<-writing
		closed := make(chan error, 3)
		for range cap(closed) {
			go func() { closed <- conn.Close() }()
		}
		for range cap(ended) {
			if err := receive(t, ended); !errors.Is(err, net.ErrClosed) {
				t.Errorf("ended by %v", err)
			}
		}
		for range cap(closed) {
			if err := receive(t, closed); err != nil {
				t.Error(err)
			}
		}
	})
}

func receive(t *testing.T, errs <-chan error) error {
	t.Helper()
	select {
	case err := <-errs:
		return err
	case <-time.After(patience):
		t.Fatal("hung:\n" + allStacks())
		return nil
	}
}

// A connection with unread data can still be closed.
func TestCloseWithUnreadData(t *testing.T) {
	flood := func(conn net.Conn) {
		for _, err := conn.Write(make([]byte, 64<<10)); err == nil; {
			_, err = conn.Write(make([]byte, 64<<10))
		}
	}
	eachProtocol(t, flood, func(t *testing.T, c *cluster) {
		conn := dial(t, c)
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after Close: %v", err)
		}
		if err := conn.SetDeadline(time.Now()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a deadline after Close: %v", err)
		}
	})
}

// A write that a deadline cuts short leaves a working connection.
func TestWriteDeadlineLosesNothing(t *testing.T) {
	release := make(chan struct{})
	var got bytes.Buffer
	done := make(chan struct{}, 1)
	serve := func(conn net.Conn) {
		<-release
		_, _ = io.Copy(&got, conn)
		done <- struct{}{}
	}
	c := newCluster(t, listen(t, serve))
	conn := dial(t, c)
	_ = conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	data := make([]byte, 64<<20)
	_, _ = rand.Read(data)
	n, err := conn.Write(data)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == len(data) {
		t.Fatalf("a write to a pod that does not read: %d, %v", n, err)
	}
	close(release)
	_ = conn.SetWriteDeadline(time.Time{})
	if _, err := conn.Write(data[n:]); err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	<-done
	if !bytes.Equal(got.Bytes(), data) {
		t.Errorf("%d of %d bytes arrived, or they differ", got.Len(), len(data))
	}
}

func TestAddresses(t *testing.T) {
	c := newCluster(t, listen(t, echo))
	conn := dial(t, c)
	if a := conn.RemoteAddr(); a.Network() != "portforward" || a.String() != "ns/pod:8080" {
		t.Errorf("remote address %s %s", a.Network(), a)
	}
	if _, ok := conn.LocalAddr().(*net.TCPAddr); !ok {
		t.Errorf("local address %v", conn.LocalAddr())
	}
}
