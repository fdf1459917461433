package wire

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"google.golang.org/grpc/credentials"
)

// recordConn is a TLS connection that sends the records of one Write together.
// crypto/tls writes each record separately, and on each hop of a port-forward every
// write has a cost, whatever its size.
type recordConn struct {
	net.Conn // with TLS
	below    *heldConn
	writing  sync.Mutex
}

// ClientConn returns conn with TLS on it, as its client, after the handshake. The
// data of one Write leaves as one write to conn. After an error the caller still
// has to close conn.
func ClientConn(ctx context.Context, conn net.Conn, config *tls.Config) (net.Conn, tls.ConnectionState, error) {
	below := &heldConn{Conn: conn}
	secured := tls.Client(below, config)
	err := secured.HandshakeContext(ctx)
	return &recordConn{Conn: secured, below: below}, secured.ConnectionState(), err
}

// AgentCredentials returns the credentials of a gRPC server with this config, such
// as [AgentTLS] returns. It writes as [ClientConn] does.
func AgentCredentials(config *tls.Config) credentials.TransportCredentials {
	return agentCredentials{credentials.NewTLS(config)}
}

type agentCredentials struct {
	credentials.TransportCredentials
}

func (c agentCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	below := &heldConn{Conn: conn}
	secured, info, err := c.TransportCredentials.ServerHandshake(below)
	if err != nil {
		return nil, nil, err
	}
	return &recordConn{Conn: secured, below: below}, info, nil
}

// Write counts the bytes that TLS has taken, even if they could not be sent.
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
