package gateway

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errClosing says that the gateway ends.
var errClosing = errors.New("this gateway ends: connect again, and another goes on")

// openStreams are the connections that an HTTP server no longer counts, nor ends.
type openStreams struct {
	closing context.Context
	end     context.CancelFunc

	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup
}

func newOpenStreams() *openStreams {
	o := &openStreams{}
	o.closing, o.end = context.WithCancel(context.Background())
	return o
}

// enter counts a connection, which calls leave at its end. It returns false if there are to be
// no more.
func (o *openStreams) enter() (leave func(), ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, false
	}
	o.all.Add(1)
	return o.all.Done, true
}

// close ends all, and waits for that, but no longer than closeTime.
func (o *openStreams) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.end()
	left := make(chan struct{})
	go func() {
		defer close(left)
		o.all.Wait()
	}()
	select {
	case <-left:
	case <-time.After(closeTime):
	}
}
