package fsops

import (
	"sync"
	"sync/atomic"
	"time"
)

// A globQueue hands the items that the workers of a walk find to the caller. The caller
// takes the first item at once; then it lets some more gather, since being woken for
// each would take longer than the walk.
type globQueue struct {
	finders []globFinder // of each worker
	// waiting says that the taker waits, so that workers put their items at once. It is
	// set before the taker looks at the items of the workers.
	waiting atomic.Bool
	_       [64]byte // keeps the fields that each match reads apart from the locked ones

	mu sync.Mutex
	// ready is signaled when there are items or the walk is over, room when
	// items were taken or nobody wants any more.
	ready, room sync.Cond
	batch       globBatch
	ended       bool
	err         error         // the walk's
	over        chan struct{} // closed when that has ended
}

// A globBatch has the items that the workers found in a while.
type globBatch struct {
	items []globItem
	errs  []error
}

func (b *globBatch) size() int { return len(b.items) + len(b.errs) }

func newGlobQueue(workers int) *globQueue {
	q := &globQueue{finders: make([]globFinder, workers), over: make(chan struct{})}
	q.ready.L, q.room.L = &q.mu, &q.mu
	return q
}

// A globFinder holds what one worker has found but not queued yet: queueing each match
// would make the workers wait for each other.
type globFinder struct {
	mu    sync.Mutex
	found []globItem
	_     [64]byte // so that no two are in one line of a processor's cache
}

// appendTo moves what was found to items.
func (f *globFinder) appendTo(items []globItem) []globItem {
	f.mu.Lock()
	defer f.mu.Unlock()
	items = append(items, f.found...)
	f.found = f.found[:0]
	return items
}

// put adds a match of a worker. When some have gathered, or the taker waits, it queues
// them. It waits while the queue is full, and fails when nobody wants more.
func (q *globQueue) put(worker int, item globItem) error {
	f := &q.finders[worker]
	f.mu.Lock()
	f.found = append(f.found, item)
	due := len(f.found) >= globGather || q.waiting.Load()
	f.mu.Unlock()
	if !due {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.await(); err != nil {
		return err
	}
	q.batch.items = f.appendTo(q.batch.items)
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

// await waits until there is room in the queue, and wakes the taker.
func (q *globQueue) await() error {
	for q.batch.size() >= globAhead && !q.ended {
		q.room.Wait()
	}
	if q.ended {
		return errStop
	}
	if q.batch.size() == 0 {
		q.waiting.Store(false)
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

// takeAll calls take for all items, and returns the error that ended the walk.
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

// swap waits for items, and returns their batch in exchange for an empty one. It reports
// whether the walk is over, so that this batch is the last.
func (q *globQueue) swap(empty globBatch) (batch globBatch, over bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		select {
		case <-q.over:
			over = true
		default:
		}
		if over || q.batch.size() == 0 {
			q.waiting.Store(true)
			q.collect()
		}
		if q.batch.size() > 0 || over {
			break
		}
		q.ready.Wait()
	}
	q.waiting.Store(false)
	batch, q.batch = q.batch, empty
	q.room.Broadcast()
	return batch, over
}

// collect takes the items that the workers have gathered.
func (q *globQueue) collect() {
	for i := range q.finders {
		q.batch.items = q.finders[i].appendTo(q.batch.items)
	}
}

// end says that nobody wants any more.
func (q *globQueue) end() {
	q.mu.Lock()
	q.ended = true
	q.mu.Unlock()
	q.room.Broadcast()
}
