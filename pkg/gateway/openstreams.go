package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// A gateway ends in steps. While it drains, it serves all, but answers close their connections.
// When it is closing, streams are told to go on elsewhere. When it is over, what is left ends.

var (
	// errClosing says that the gateway ends.
	errClosing = errors.New("this gateway ends: connect again, and another goes on")
	// errOver ends the requests that are left.
	errOver = fmt.Errorf("%w: %w", errClosing, context.Canceled)
)

// openStreams are the requests under way, and what they are told of the gateway's end. Those whose
// connection was taken over are ones that an HTTP server neither counts nor ends.
type openStreams struct {
	draining, closing, over context.Context
	drain, close, end       context.CancelFunc

	mu       sync.Mutex
	requests int
	none     chan struct{} // closed when there are no requests, for who waits for that
	closed   bool
	told     sync.WaitGroup // those that end by themselves when the gateway is closing
}

func newOpenStreams() *openStreams {
	o := &openStreams{}
	o.draining, o.drain = context.WithCancel(context.Background())
	o.closing, o.close = context.WithCancel(context.Background())
	o.over, o.end = context.WithCancel(context.Background())
	return o
}

// begin counts a request, which calls done at its end. It returns the request with a context that
// ends when the gateway is over.
func (o *openStreams) begin(w http.ResponseWriter, r *http.Request) (with *http.Request, done func()) {
	if o.draining.Err() != nil && r.Header.Get("Upgrade") == "" {
		w.Header().Set("Connection", "close") // over HTTP/2 net/http makes a GOAWAY of it
	}
	ctx, done := o.count(r.Context())
	return r.WithContext(ctx), done
}

// count is begin for what is no request, but lasts as one.
func (o *openStreams) count(ctx context.Context) (with context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(o.over, func() { cancel(errOver) })
	o.mu.Lock()
	o.requests++
	o.mu.Unlock()
	return ctx, func() {
		stop()
		cancel(nil)
		o.done()
	}
}

func (o *openStreams) done() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests--; o.requests == 0 && o.none != nil {
		close(o.none)
		o.none = nil
	}
}

// wait waits until there are no requests, or ctx ends.
func (o *openStreams) wait(ctx context.Context) {
	o.mu.Lock()
	if o.requests == 0 {
		o.mu.Unlock()
		return
	}
	if o.none == nil {
		o.none = make(chan struct{})
	}
	none := o.none
	o.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
}

// enter counts a stream that ends by itself when the gateway is closing; it calls leave then. It
// returns false if there are to be no more.
func (o *openStreams) enter() (leave func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, false
	}
	o.told.Add(1)
	return o.told.Done, true
}

// tell tells the streams to go on elsewhere.
func (o *openStreams) tell() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.drain()
	o.close()
}

// finish ends all: those that were told get closeTime to end by themselves, unless all is over.
func (o *openStreams) finish() {
	o.tell()
	left := make(chan struct{})
	go func() {
		defer close(left)
		o.told.Wait()
	}()
	select {
	case <-left:
	case <-o.over.Done():
	case <-time.After(closeTime):
	}
	o.end()
}
