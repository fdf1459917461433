package fsops

import (
	"context"
	"slices"
	"sync"
)

// A budget bounds what several calls hold at once. A call that does not fit waits.
// Calls are served in the order of arrival, so that a large one does not wait for
// ever behind smaller ones.
type budget struct {
	mu    sync.Mutex
	limit int64
	taken int64
	queue []*budgetWait
}

type budgetWait struct {
	n int64
	// ready is closed when the waiting call has got n.
	ready chan struct{}
}

func newBudget(limit int64) *budget { return &budget{limit: limit} }

// take waits until there is room for n, or ctx ends. More than the limit
// counts as the limit. The caller calls give once.
func (b *budget) take(ctx context.Context, n int64) (give func(), err error) {
	n = min(n, b.limit)
	w := b.enter(n)
	select {
	case <-w.ready:
		return func() { b.give(n) }, nil
	case <-ctx.Done():
		b.leave(w)
		return nil, ctx.Err()
	}
}

func (b *budget) enter(n int64) *budgetWait {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := &budgetWait{n: n, ready: make(chan struct{})}
	b.queue = append(b.queue, w)
	b.serve()
	return w
}

// leave gives up waiting. It gives back n if the call has just got it.
func (b *budget) leave(w *budgetWait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, w); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	} else {
		b.taken -= w.n
	}
	b.serve()
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken -= n
	b.serve()
}

// serve lets the first waiting calls through, as far as they fit.
func (b *budget) serve() {
	for len(b.queue) > 0 && b.taken+b.queue[0].n <= b.limit {
		b.taken += b.queue[0].n
		close(b.queue[0].ready)
		b.queue = b.queue[1:]
	}
}
