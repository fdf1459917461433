package tunnel

import (
	"sync"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// queue holds what was received until it is delivered: no more than the window
// lets it, whose bytes it joins, so that small messages do not take a buffer
// each. What was received before an end is delivered before it.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  [][]byte
	ended   bool // after the chunks
	dropped bool // what comes, as what there is
	err     error
}

// push takes a buffer over.
func (q *queue) push(data []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.chunks) - 1
	switch {
	case q.dropped || len(data) == 0:
		pb.FreeDialBuffer(data)
	case last >= 0 && len(data) <= cap(q.chunks[last])-len(q.chunks[last]):
		q.chunks[last] = append(q.chunks[last], data...)
		pb.FreeDialBuffer(data)
	default:
		q.chunks = append(q.chunks, data)
	}
	q.changed.Signal()
}

// pop waits for the next buffer, which the caller frees. There is none at an end
// that was said, and when the queue has failed: then with the error.
func (q *queue) pop() (data []byte, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 && !q.ended && q.err == nil {
		q.changed.Wait()
	}
	if len(q.chunks) > 0 {
		data, q.chunks[0] = q.chunks[0], nil
		q.chunks = q.chunks[1:]
		return data, nil
	}
	if q.ended {
		q.ended = false
		return nil, nil
	}
	return nil, q.err
}

// end lets pop return nothing, once.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Signal()
}

// fail lets pop return err from then on. The first error stays.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.changed.Signal()
}

// drop frees what there is and what comes.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, data := range q.chunks {
		pb.FreeDialBuffer(data)
	}
	q.chunks, q.dropped = nil, true
	q.changed.Signal()
}
