package tunnel

import (
	"sync"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// queue holds received bytes until they are delivered: no more than the window
// allows. It joins them, so that small messages do not take a buffer each. It
// delivers everything that was received before an end first.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	chunks  [][]byte
	ended   bool // after the chunks
	dropped bool // the chunks, and all that come
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

// pop waits for the next buffer, which the caller frees. It returns nil after end, and
// the error after fail.
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

// end makes pop return nil once.
func (q *queue) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.changed.Signal()
}

// fail makes pop return err from then on. The first error stays.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.changed.Signal()
}

// drop frees the chunks, and all that come.
func (q *queue) drop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, data := range q.chunks {
		pb.FreeDialBuffer(data)
	}
	q.chunks, q.dropped = nil, true
	q.changed.Signal()
}
