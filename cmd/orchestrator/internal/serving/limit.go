package serving

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// Limit bounds the connections of a server, also those that handlers have taken over. When all are
// in use, a newcomer takes the place of the one that has been without a request for longest, be it
// that it waits for the next one, or that it never sent a whole one. If all have requests, the
// newcomer is refused. Limit returns what the server must listen at, and wraps its Handler.
func Limit(server *http.Server, listener *net.TCPListener, limit int) net.Listener {
	l := &limited{TCPListener: listener, limit: limit, open: map[*conn]struct{}{}}
	handler := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, inner(c))
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*conn)
		l.enter(c)
		defer l.leave(c)
		handler.ServeHTTP(w, r)
	})
	return l
}

type connKey struct{}

// limited is a listener whose connections are bounded.
type limited struct {
	*net.TCPListener
	limit int

	mu      sync.Mutex
	open    map[*conn]struct{}
	waiting list.List // the connections without a request, the longest first
}

type conn struct {
	*net.TCPConn
	of *limited

	// limited.mu guards these.
	requests int
	waits    *list.Element // in waiting; nil if it has a request, or is closed
}

// inner returns the connection below TLS.
func inner(c net.Conn) *conn {
	for {
		if own, ok := c.(*conn); ok {
			return own
		}
		c = c.(interface{ NetConn() net.Conn }).NetConn()
	}
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		c := &conn{TCPConn: tcp, of: l}
		if l.admit(c) {
			return c, nil
		}
	}
}

// admit adds a connection, and closes one if there are too many. It reports whether that is another.
func (l *limited) admit(c *conn) bool {
	l.mu.Lock()
	l.open[c] = struct{}{}
	c.waits = l.waiting.PushBack(c)
	var out *conn
	if len(l.open) > l.limit {
		out = l.waiting.Front().Value.(*conn)
	}
	l.mu.Unlock()
	if out != nil {
		_ = out.Close()
	}
	return out != c
}

// enter notes that a connection has a request, and leave that it is answered.
func (l *limited) enter(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.requests++
	l.unqueue(c)
}

func (l *limited) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.requests--
	if _, open := l.open[c]; open && c.requests == 0 {
		c.waits = l.waiting.PushBack(c)
	}
}

// unqueue takes a connection out of those that wait.
func (l *limited) unqueue(c *conn) {
	if c.waits != nil {
		l.waiting.Remove(c.waits)
		c.waits = nil
	}
}

// Close closes the connection, which counts no more.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.unqueue(c)
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}
