package egress

import (
	"net"
	"sync"

	"github.com/podagent/podagent/internal/halves"
)

// clientConn is the connection of a client whose TLS is opened. It says when it is closed,
// whoever closes it.
type clientConn struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func newClientConn(conn net.Conn) *clientConn {
	return &clientConn{Conn: conn, closed: make(chan struct{})}
}

// Close closes the connection.
func (c *clientConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		err = c.Conn.Close()
		close(c.closed)
	})
	return err
}

// reset closes the connection in a way that no client takes for an end.
func (c *clientConn) reset() {
	_ = halves.SetLinger(c.Conn, 0)
	_ = c.Close()
}

// oneConn is a listener with one connection. It ends with that.
type oneConn struct {
	conn  net.Conn
	once  sync.Once
	ended <-chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	var first net.Conn
	l.once.Do(func() { first = l.conn })
	if first != nil {
		return first, nil
	}
	<-l.ended
	return nil, net.ErrClosed
}

// Close does nothing: the connection has an owner.
func (l *oneConn) Close() error { return nil }

// Addr returns the address of the connection.
func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }
