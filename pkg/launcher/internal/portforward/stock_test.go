package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// Under returns the writer for the stock client's frames, over a connection to the
// API server.
type Under func(net.Conn) net.Conn

// AsItIs sends each frame in the three writes that the stock client makes.
func AsItIs(conn net.Conn) net.Conn { return conn }

// Whole sends each frame in one write.
func Whole(conn net.Conn) net.Conn { return &wholeFrames{Conn: conn} }

// Gathered sends together what is written while another write is under way.
func Gathered(conn net.Conn) net.Conn {
	g := &gatheredFrames{Conn: conn}
	g.cond.L = &g.mu
	go g.run()
	return Whole(g)
}

// DialStock connects as [Dialer.Dial] does, with the stock client's SPDY instead of
// this package's. It does only what a gRPC connection needs: deadlines have no
// effect, and every end is io.EOF.
func DialStock(ctx context.Context, d *Dialer, under Under, namespace, pod string, port int) (net.Conn, error) {
	t, err := d.podPort(namespace, pod, port)
	if err != nil {
		return nil, err
	}
	l, err := d.upgrade(ctx, t.url)
	if err != nil {
		return nil, err
	}
	frames := under(&linkConn{link: l, remote: t.addr})
	conn, err := spdy.NewClientConnectionWithPings(frames, pingPeriod)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c, err := openStock(conn, frames, t.port)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func openStock(conn httpstream.Connection, under net.Conn, port int) (*stockConn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	failures, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = failures.Close() // nothing is sent on it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	go func() {
		if text, _ := io.ReadAll(failures); len(text) > 0 {
			_ = conn.Close()
		}
	}()
	return &stockConn{Conn: under, stream: data, all: conn}, nil
}

// stockConn is the stock client's data stream.
type stockConn struct {
	net.Conn
	stream httpstream.Stream
	all    httpstream.Connection
}

func (c *stockConn) Read(p []byte) (int, error)       { return c.stream.Read(p) }
func (c *stockConn) Write(p []byte) (int, error)      { return c.stream.Write(p) }
func (c *stockConn) Close() error                     { return c.all.Close() }
func (*stockConn) SetDeadline(t time.Time) error      { return nil }
func (*stockConn) SetReadDeadline(t time.Time) error  { return nil }
func (*stockConn) SetWriteDeadline(t time.Time) error { return nil }

// wholeFrames buffers writes until a frame is complete. The stock client writes one
// frame at a time, in three parts.
type wholeFrames struct {
	net.Conn
	frame []byte
}

func (c *wholeFrames) Write(p []byte) (int, error) {
	c.frame = append(c.frame, p...)
	if len(c.frame) < headerSize {
		return len(p), nil
	}
	length := int(c.frame[5])<<16 | int(c.frame[6])<<8 | int(c.frame[7])
	if len(c.frame) < headerSize+length {
		return len(p), nil
	}
	_, err := c.Conn.Write(c.frame)
	c.frame = c.frame[:0]
	return len(p), err
}

// gatheredFrames writes in its own goroutine.
type gatheredFrames struct {
	net.Conn
	mu             sync.Mutex
	cond           sync.Cond
	frames, leaves []byte
	err            error
}

func (c *gatheredFrames) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.frames) >= maxFrame && c.err == nil {
		c.cond.Wait()
	}
	c.frames = append(c.frames, p...)
	c.cond.Broadcast()
	return len(p), c.err
}

func (c *gatheredFrames) run() {
	for c.next() {
		if _, err := c.Conn.Write(c.leaves); err != nil {
			c.fail(err)
		}
	}
}

func (c *gatheredFrames) next() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.frames) == 0 && c.err == nil {
		c.cond.Wait()
	}
	c.frames, c.leaves = c.leaves[:0], c.frames
	c.cond.Broadcast()
	return c.err == nil
}

func (c *gatheredFrames) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.cond.Broadcast()
}

func (c *gatheredFrames) Close() error {
	c.fail(net.ErrClosed)
	return c.Conn.Close()
}

// linkConn is a link as a net.Conn.
type linkConn struct {
	*link
	remote addr
}

func (c *linkConn) LocalAddr() net.Addr              { return c.socket.LocalAddr() }
func (c *linkConn) RemoteAddr() net.Addr             { return c.remote }
func (*linkConn) SetDeadline(t time.Time) error      { return nil }
func (*linkConn) SetReadDeadline(t time.Time) error  { return nil }
func (*linkConn) SetWriteDeadline(t time.Time) error { return nil }
