package gateway

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/podagent/podagent/internal/halves"
)

var (
	errEgressTenantFull = errors.New("the tenant's sandboxes have as many connections open as they may")
	errEgressFull       = errors.New("the gateway has as many connections of sandboxes open as it may")
)

// egressConn is a connection of a sandbox to its far end, whose bytes are counted.
type egressConn struct {
	net.Conn
	in, out atomic.Int64 // from the sandbox, and to it
	close   func() error
}

// newEgressConn returns a connection that calls closed once, with its bytes, when it is closed.
func newEgressConn(conn net.Conn, closed func(in, out int64)) *egressConn {
	c := &egressConn{Conn: conn}
	c.close = sync.OnceValue(func() error {
		defer func() { closed(c.in.Load(), c.out.Load()) }()
		return conn.Close()
	})
	return c
}

func (c *egressConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.in.Add(int64(n))
	return n, err
}

func (c *egressConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.out.Add(int64(n))
	return n, err
}

func (c *egressConn) Close() error { return c.close() }

// CloseWrite ends the direction to the sandbox.
func (c *egressConn) CloseWrite() error { return halves.CloseWrite(c.Conn) }

// SetLinger sets what Close does, as that of a [net.TCPConn].
func (c *egressConn) SetLinger(sec int) error { return halves.SetLinger(c.Conn, sec) }
