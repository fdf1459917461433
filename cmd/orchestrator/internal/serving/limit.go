package serving

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// Limit bounds the connections of a server, also those that handlers have taken over. When all are
// in use, a newcomer takes the place of the first that there is of these:
//
//   - the one that has been for longest without a request that is kept: it waits for one, never sent a
//     whole one, or sent one that the handler has not kept (see Keep);
//   - the one whose request has been yielding for longest (see Yield).
//
// If there are none, the newcomer is refused. Limit returns what the server must listen at, and wraps
// its Handler.
func Limit(server *http.Server, listener *net.TCPListener, limit int) net.Listener {
	l := &limited{TCPListener: listener, limit: limit, open: map[*conn]struct{}{}}
	handler := server.Handler
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, inner(c))
	}
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{conn: r.Context().Value(connKey{}).(*conn)}
		if !l.enter(v) {
			panic(http.ErrAbortHandler) // nobody could be answered
		}
		defer l.leave(v)
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), visitKey{}, v)))
	})
	return l
}

// Keep lets the connection of a request stay until the request is answered. The context is the one of
// a request to a server with a Limit. For any other it does nothing.
func Keep(ctx context.Context) { keep(ctx, kept) }

// Yield is Keep, but for newcomers if no connection is without a request that is kept or yields.
func Yield(ctx context.Context) { keep(ctx, yielding) }

func keep(ctx context.Context, as standing) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		v.conn.of.change(v, as)
	}
}

// KeepAll returns a handler that keeps each request.
func KeepAll(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		Keep(r.Context())
		h.ServeHTTP(w, r)
	})
}

type (
	connKey  struct{}
	visitKey struct{}
)

// standing says who goes before whom: a connection has the highest one of its requests.
type standing int

const (
	waiting standing = iota // it has no request, or none that was kept
	yielding
	kept
	standings
)

// limited is a listener whose connections are bounded.
type limited struct {
	*net.TCPListener
	limit int

	mu     sync.Mutex
	open   map[*conn]struct{}
	queues [kept]list.List // the connections that may have to go, the first of them first
}

type conn struct {
	*net.TCPConn
	of *limited

	// limited.mu guards these.
	requests [standings]int // by their standing
	queue    *list.List     // that it is in; nil if it is kept, or closed
	place    *list.Element  // in queue
}

// visit is a request of a connection.
type visit struct {
	conn *conn
	as   standing // limited.mu guards it
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
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	if len(l.open) > l.limit {
		out := l.first(c)
		// No request begins on it any more: see enter.
		l.forget(out)
		_ = out.TCPConn.Close()
		if out == c {
			return false
		}
	}
	l.enqueue(c)
	return true
}

// first returns the connection that has to go for a newcomer: the newcomer itself if there is no other.
func (l *limited) first(newcomer *conn) *conn {
	for i := range l.queues {
		if front := l.queues[i].Front(); front != nil {
			return front.Value.(*conn)
		}
	}
	return newcomer
}

// enter notes that a connection has a request, and leave that it is answered. There is no request on
// a connection that was closed for a newcomer meanwhile.
func (l *limited) enter(v *visit) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.open[v.conn]; !open {
		return false
	}
	v.conn.requests[v.as]++
	l.enqueue(v.conn)
	return true
}

func (l *limited) leave(v *visit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.conn.requests[v.as]--
	l.enqueue(v.conn)
}

// change gives a request another standing.
func (l *limited) change(v *visit, as standing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.conn.requests[v.as]--
	v.as = as
	v.conn.requests[v.as]++
	l.enqueue(v.conn)
}

// enqueue puts a connection at the end of the queue that is its own by now, if it has one.
func (l *limited) enqueue(c *conn) {
	l.dequeue(c)
	if _, open := l.open[c]; !open || c.requests[kept] > 0 {
		return
	}
	c.queue = &l.queues[waiting]
	if c.requests[yielding] > 0 {
		c.queue = &l.queues[yielding]
	}
	c.place = c.queue.PushBack(c)
}

func (l *limited) dequeue(c *conn) {
	if c.queue != nil {
		c.queue.Remove(c.place)
		c.queue, c.place = nil, nil
	}
}

// forget makes a connection count no more.
func (l *limited) forget(c *conn) {
	l.dequeue(c)
	delete(l.open, c)
}

// Close closes the connection, which counts no more.
func (c *conn) Close() error {
	c.of.mu.Lock()
	c.of.forget(c)
	c.of.mu.Unlock()
	return c.TCPConn.Close()
}
