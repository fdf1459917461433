package fsops

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A globQueue takes what the workers of a walk find to the one who asked. The
// first item is taken at once; then the taker lets some more gather, since being
// woken for each would take longer than the walk.
type globQueue struct {
	mu sync.Mutex
	// wanting says that the taker has nothing yet.
	wanting atomic.Bool
	// ready is signaled when there are items or the walk is over, room when
	// items were taken or nobody wants any more.
	ready, room sync.Cond
	batch       globBatch
	ended       bool
	err         error         // the walk's
	over        chan struct{} // closed when that has ended
}

// A globBatch is what the workers found in a while.
type globBatch struct {
	items []globItem
	errs  []error
}

func (b *globBatch) size() int { return len(b.items) + len(b.errs) }

// each passes on what is in the batch, until that fails or ctx ends.
func (b *globBatch) each(ctx context.Context, take func(globItem) error, report func(error) error) error {
	for _, err := range b.errs {
		if err := report(err); err != nil {
			return err
		}
	}
	for _, item := range b.items {
		if ctx.Err() != nil {
			return nil
		}
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

func newGlobQueue() *globQueue {
	q := &globQueue{over: make(chan struct{})}
	q.ready.L, q.room.L = &q.mu, &q.mu
	q.wanting.Store(true)
	return q
}

// A globFinder is one worker's way to the queue, which keeps some matches back:
// to put each of them would have the workers wait for each other.
type globFinder struct {
	queue *globQueue
	found []globItem
	_     [64]byte // no other worker's cache line
}

// put adds a match.
func (f *globFinder) put(item globItem) error {
	f.found = append(f.found, item)
	if len(f.found) == globGather {
		return f.flush()
	}
	return f.offer()
}

// offer adds what is kept back, if somebody waits for it.
func (f *globFinder) offer() error {
	if len(f.found) == 0 || !f.queue.wanting.Load() {
		return nil
	}
	return f.flush()
}

func (f *globFinder) flush() error {
	err := f.queue.put(f.found)
	f.found = f.found[:0]
	return err
}

// put adds matches. It waits while there are many already, and fails when nobody
// wants more.
func (q *globQueue) put(items []globItem) error {
	if len(items) == 0 {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.await(); err != nil {
		return err
	}
	q.batch.items = append(q.batch.items, items...)
	return nil
}

// fail is put for an error.
func (q *globQueue) fail(err error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.await(); err != nil {
		return err
	}
	q.batch.errs = append(q.batch.errs, err)
	return nil
}

// await waits until there is room for something, and has that taken.
func (q *globQueue) await() error {
	for q.batch.size() >= globAhead && !q.ended {
		q.room.Wait()
	}
	if q.ended {
		return errStop
	}
	if q.batch.size() == 0 {
		q.wanting.Store(false)
		q.ready.Signal()
	}
	return nil
}

// close says that there will be no more, since the walk ended with err.
func (q *globQueue) close(err error) {
	q.mu.Lock()
	q.err = err
	close(q.over)
	q.mu.Unlock()
	q.ready.Signal()
}

// takeAll calls take for all that is found, and returns what ended the walk.
func (q *globQueue) takeAll(take func(globBatch)) error {
	var batch globBatch
	for over := false; !over; {
		batch, over = q.swap(globBatch{items: batch.items[:0]})
		take(batch)
		select {
		case <-q.over:
		case <-time.After(globPause):
		}
	}
	return q.err
}

// swap waits for something, and puts an empty batch in its place. It reports
// whether the walk is over, so that this was the last.
func (q *globQueue) swap(empty globBatch) (batch globBatch, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		select {
		case <-q.over:
			over = true
		default:
		}
		if q.batch.size() > 0 || over {
			break
		}
		q.ready.Wait()
	}
	batch, q.batch = q.batch, empty
	q.wanting.Store(true)
	q.room.Broadcast()
	return batch, over
}

// end says that nobody wants any more.
func (q *globQueue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.room.Broadcast()
}
