package gateway

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// calls are the requests under way. While there are any, it is asked again and again whose their
// tokens are: a call ends when its token is no longer its caller's.
type calls struct {
	tenants Tenants

	mu     sync.Mutex
	groups map[group]*groupCalls
	timer  *time.Timer // nil if there are no calls
	closed bool
}

// group is what calls have in common: as long as the token is the tenant's, they may go on.
type group struct {
	token, tenant string
	digest        digest    // of a token that is not known, in place of it
	ssh           *SSHKey   // of a connection of SSH, in place of both
	rights        SSHCaller // what this one was let in with, and lasts as long as
}

// Why calls end. Who waits for what such a call had begun takes it for one whose caller has left.
var (
	errRevoked    = fmt.Errorf("%w any more: %w", ErrUnknownToken, context.Canceled)
	errUntoldLong = fmt.Errorf("%w: %w", errUntold, context.Canceled)
)

type groupCalls struct {
	calls   map[revocable]struct{}
	failing time.Time // since when nobody knows whose the token is; zero if it is known
}

// revocable is a call, or what goes on after one.
type revocable interface {
	// revoke ends it. It may be called after its end, and more than once.
	revoke(cause error)
}

func newCalls(t Tenants) *calls { return &calls{tenants: t, groups: map[group]*groupCalls{}} }

// begin adds a request that has just been let in.
func (c *calls) begin(w http.ResponseWriter, r *http.Request, by group) *call {
	ctx, cancel := context.WithCancelCause(r.Context())
	added := &call{ResponseWriter: w, request: r.WithContext(ctx), group: by, cancel: cancel}
	c.add(by, added)
	return added
}

// end removes a request that is answered.
func (c *calls) end(done *call) {
	c.remove(done.group, done)
	done.end()
}

func (c *calls) add(to group, what revocable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.groups[to]
	if of == nil {
		of = &groupCalls{calls: map[revocable]struct{}{}}
		c.groups[to] = of
	}
	of.calls[what] = struct{}{}
	if c.timer == nil && !c.closed {
		c.timer = time.AfterFunc(askInterval, c.check)
	}
}

func (c *calls) remove(from group, what revocable) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.groups[from]
	delete(of.calls, what)
	if len(of.calls) == 0 {
		delete(c.groups, from)
	}
}

// close lets calls go on, whoever makes them.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// check asks whose the tokens are.
func (c *calls) check() {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	for _, g := range c.current() {
		c.judge(g, c.isStill(ctx, g))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed || len(c.groups) == 0:
		c.timer = nil
	default:
		c.timer.Reset(askInterval)
	}
}

func (c *calls) current() (all []group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for g := range c.groups {
		all = append(all, g)
	}
	return all
}

// judge ends the calls of a group if err says so. If it only says that nobody knows, they go on
// for a while.
func (c *calls) judge(g group, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.groups[g]
	switch {
	case of == nil:
		return
	case err == nil:
		of.failing = time.Time{}
		return
	case errors.Is(err, ErrUnknownToken):
		err = errRevoked
	case of.failing.IsZero():
		of.failing = time.Now()
		return
	case time.Since(of.failing) < untoldTime:
		return
	default:
		err = errUntoldLong
	}
	for ended := range of.calls {
		ended.revoke(err)
	}
}

// call is a request under way, and what it is answered with.
type call struct {
	http.ResponseWriter
	request *http.Request
	group   group
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	conn    net.Conn // if it was hijacked
	revoked bool
	ended   bool // the request is answered, and what answered it must not be touched
}

// revoke ends the call: its context at once, and soon afterwards what waits for its caller to
// read or to write.
func (c *call) revoke(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.revoked {
		return
	}
	c.revoked = true
	c.cancel(cause)
	if c.conn != nil {
		_ = c.conn.Close()
		return
	}
	soon, control := time.Now().Add(revokedTime), http.NewResponseController(c.ResponseWriter)
	_ = control.SetReadDeadline(soon)
	_ = control.SetWriteDeadline(soon)
}

// end says that the request is answered. The connection may have another one then.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.cancel(nil)
}

// Unwrap is for [http.ResponseController].
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// Flush implements [http.Flusher].
func (c *call) Flush() { _ = http.NewResponseController(c.ResponseWriter).Flush() }

// SetReadDeadline is for [http.ResponseController]. It does nothing once the call is revoked.
func (c *call) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked {
		return nil
	}
	return http.NewResponseController(c.ResponseWriter).SetReadDeadline(t)
}

// SetWriteDeadline is like SetReadDeadline.
func (c *call) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked {
		return nil
	}
	return http.NewResponseController(c.ResponseWriter).SetWriteDeadline(t)
}

// Hijack implements [http.Hijacker]. The connection is closed when the call is revoked.
func (c *call) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.revoked {
		return nil, nil, context.Cause(c.request.Context())
	}
	conn, buffered, err := http.NewResponseController(c.ResponseWriter).Hijack()
	c.conn = conn
	return conn, buffered, err
}
