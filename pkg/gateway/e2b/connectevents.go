package e2b

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// events are the events that a call is answered with.
type events[T any] struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	stream *connect.ServerStream[T]

	mu       sync.Mutex
	interval time.Duration
	idle     *time.Timer // nil before the first event
	ended    bool
}

// newEvents returns the events of a call, and what ends them. Their context ends with the call's, and
// when an event cannot be sent.
func newEvents[T any](ctx context.Context, s *connect.ServerStream[T]) (e *events[T], end func()) {
	e = &events[T]{stream: s, interval: keepaliveInterval(requestHeader(ctx).Get("Keepalive-Ping-Interval"))}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	return e, e.end
}

// keepaliveInterval returns how long a stream may be silent, of what its caller asks for in seconds.
func keepaliveInterval(asked string) time.Duration {
	seconds, err := strconv.Atoi(asked)
	if err != nil || seconds <= 0 {
		return keepaliveDefault
	}
	return min(time.Duration(seconds), keepaliveDefault/time.Second) * time.Second
}

// send sends an event. If it cannot, the context ends. It may be called concurrently.
func (e *events[T]) send(m *T) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return errEnded // the answer is over: nobody may write it any more
	}
	if e.idle != nil {
		e.idle.Reset(e.interval)
	}
	err := e.stream.Send(m)
	if err != nil {
		e.cancel(err)
	}
	return err
}

// keepAlive sends m when nothing else was sent for a while, until the call ends.
func (e *events[T]) keepAlive(m *T) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.idle = time.AfterFunc(e.interval, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.ended {
			return
		}
		if err := e.stream.Send(m); err != nil {
			e.cancel(err)
			return
		}
		e.idle.Reset(e.interval)
	})
}

var errEnded = errors.New("the call has ended")

// end waits until nothing is being sent; nothing is sent afterwards.
func (e *events[T]) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	if e.idle != nil {
		e.idle.Stop()
	}
	e.cancel(nil)
}
