package admission

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// Credentials returns credentials for the server of the gate's listeners. After their
// handshake a connection is known.
func (g *Gate) Credentials(c credentials.TransportCredentials) credentials.TransportCredentials {
	return gateCredentials{c}
}

type gateCredentials struct {
	credentials.TransportCredentials
}

func (g gateCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, ok := raw.(*conn)
	if !ok {
		return nil, nil, errors.New("the connection did not come through the gate")
	}
	secured, info, err := g.TransportCredentials.ServerHandshake(c)
	if err != nil {
		return nil, nil, err
	}
	if err := c.gate.recognize(c, info); err != nil {
		return nil, nil, err
	}
	return secured, authInfo{info, c}, nil
}

func (g gateCredentials) Clone() credentials.TransportCredentials {
	return gateCredentials{g.TransportCredentials.Clone()}
}

// authInfo is what calls know of their connection.
type authInfo struct {
	credentials.AuthInfo
	conn *conn
}

// Begin notes that a call begins on the connection by which ctx came. Until the caller
// calls end, no newcomer takes the connection's place; [Gate.Expel] may still drop it. The
// error says that the connection has been dropped.
func Begin(ctx context.Context) (end func(), err error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return func() {}, nil
	}
	info, ok := p.AuthInfo.(authInfo)
	if !ok {
		return func() {}, nil
	}
	if !info.conn.begin() {
		return nil, errNoRoom
	}
	return info.conn.end, nil
}

func (c *conn) begin() bool {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.calls++
	return c.state == known
}

func (c *conn) end() {
	c.gate.mu.Lock()
	defer c.gate.mu.Unlock()
	c.calls--
	c.since = time.Now()
}
