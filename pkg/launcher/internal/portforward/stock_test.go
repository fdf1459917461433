package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// DialStock connects as [Dialer.Dial] does, by the stock client's SPDY in place of
// this package's. It does what a connection of gRPC needs and no more: deadlines
// have no effect, and every end is io.EOF. With whole, each frame leaves in one
// write; otherwise in three, as the stock client has it.
func DialStock(ctx context.Context, d *Dialer, whole bool, namespace, pod string, port int) (net.Conn, error) {
	t, err := d.target(namespace, pod, port)
	if err != nil {
		return nil, err
	}
	l, err := d.upgrade(ctx, t.url)
	if err != nil {
		return nil, err
	}
	var under net.Conn = &linkConn{link: l, remote: t.addr}
	if whole {
		under = &wholeFrames{Conn: under}
	}
	conn, err := spdy.NewClientConnectionWithPings(under, pingPeriod)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	c, err := openStock(conn, under, t.port)
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

// wholeFrames holds back what is written until a frame is complete. The stock client
// writes one frame at a time, in three parts.
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
