package egress

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/podagent/podagent/pkg/egress/internal/mask"
)

// budget bounds what the requests in opened TLS hold, of one sandbox and of all together.
// A request has its part from its beginning to its end, since a client, or a host, can stop
// at any time. What one sandbox can have is a small part of the whole, so that it takes
// nothing from the others.
type budget struct {
	own, all *semaphore.Weighted
	waiting  chan struct{} // has an element for each request that waits
}

// ofAll is for all far ends of the process, who share its memory.
var ofAll = semaphore.NewWeighted(mostHeld)

func newBudget() *budget {
	return &budget{own: semaphore.NewWeighted(mostHeldBySandbox), all: ofAll, waiting: make(chan struct{}, mostWaiting)}
}

var errBusy = errors.New("too many requests to hosts of secrets are under way: try again when some have ended")

// take takes n bytes. If others have them, it waits for openWait, unless too many others wait.
func (b *budget) take(ctx context.Context, n int64) (give func(), err error) {
	give = func() { b.all.Release(n); b.own.Release(n) }
	if b.own.TryAcquire(n) {
		if b.all.TryAcquire(n) {
			return give, nil
		}
		b.own.Release(n)
	}
	select {
	case b.waiting <- struct{}{}:
		defer func() { <-b.waiting }()
	default:
		return nil, errBusy
	}
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if b.own.Acquire(ctx, n) != nil {
		return nil, errBusy
	}
	if b.all.Acquire(ctx, n) != nil {
		b.own.Release(n)
		return nil, errBusy
	}
	return give, nil
}

// requestCost is what a request to a host with the secrets of a mask can hold: the piece of its answer
// that passes, what is searched and held back of it, and its part of the windows of its
// connections.
func requestCost(m *mask.Mask) int64 {
	return openBuffer + 2*mask.Piece + 2*int64(m.Hold()) + (openConnBuffer+hostConnBuffer)/openStreams
}

var openBuffers = sync.Pool{New: func() any { return new([openBuffer]byte) }}

// openBufferPool has the buffers of answers in opened TLS.
type openBufferPool struct{}

func (openBufferPool) Get() []byte  { return openBuffers.Get().(*[openBuffer]byte)[:] }
func (openBufferPool) Put(b []byte) { openBuffers.Put((*[openBuffer]byte)(b)) }
