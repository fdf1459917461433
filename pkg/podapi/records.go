package podapi

import (
	"crypto/tls"
	"net"
	"sync"
)

// recordConn is a connection by TLS that sends the records of one Write
// together. crypto/tls writes each by itself, and on each hop of a port-forward
// a write has its costs, whatever its size.
type recordConn struct {
	*tls.Conn
	below   *heldConn
	writing sync.Mutex
}

// newRecordConn makes conn a connection by TLS, as its client.
func newRecordConn(conn net.Conn, config *tls.Config) *recordConn {
	below := &heldConn{Conn: conn}
	return &recordConn{Conn: tls.Client(below, config), below: below}
}

// Write counts what TLS has taken, also when it could not be sent.
func (c *recordConn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.below.hold()
	n, err := c.Conn.Write(p)
	if sent := c.below.release(); err == nil {
		err = sent
	}
	return n, err
}

// heldConn is a connection whose writes can be held back.
type heldConn struct {
	net.Conn
	mu      sync.Mutex
	holding bool
	held    []byte
}

// Write sends p, or keeps it for release.
func (c *heldConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.holding {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

// hold keeps what is written from now on.
func (c *heldConn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = true
}

// release sends what was kept, in one write.
func (c *heldConn) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holding = false
	_, err := c.Conn.Write(c.held)
	c.held = c.held[:0]
	return err
}
