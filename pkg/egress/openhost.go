package egress

import (
	"context"
	"fmt"
	"net"
	"sync"
)

// hostConn is a connection to a host, for the requests of one client.
type hostConn struct {
	net.Conn
	over func()
}

// Close closes the connection.
func (c *hostConn) Close() error {
	defer c.over()
	return c.Conn.Close()
}

// connect connects to the host, if there are not too many connections to hosts.
func (x *openedTLS) connect(ctx context.Context) (net.Conn, error) {
	slots := x.opener.conns
	select {
	case slots <- struct{}{}:
	default:
		return nil, &unreachable{text: fmt.Sprintf("%d connections to hosts of secrets are open, and there may be no more", mostHostConns)}
	}
	conn, err := x.dial(ctx)
	if err != nil {
		<-slots
		return nil, err
	}
	c := &hostConn{Conn: conn}
	c.over = sync.OnceFunc(func() {
		x.mu.Lock()
		delete(x.hosts, c)
		x.mu.Unlock()
		<-slots
	})
	x.mu.Lock()
	over := x.closed
	x.hosts[c] = struct{}{}
	x.mu.Unlock()
	if over {
		c.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// close ends the connections to the host, which HTTP/2 would keep for a while.
func (x *openedTLS) close() {
	x.mu.Lock()
	x.closed = true
	var open []*hostConn
	for c := range x.hosts {
		open = append(open, c)
	}
	x.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	if x.host != nil {
		x.host.CloseIdleConnections()
	}
}
