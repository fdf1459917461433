package agent

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// stdinQueue holds the standard input that a caller has sent and the process has
// not read: at most wire.StdinWindow. So a process that does not read costs no more
// memory, and never delays the caller's signals.
type stdinQueue struct {
	mu     sync.Mutex
	change sync.Cond
	data   []byte
	offset int64 // of data's first byte in standard input
	eof    bool
	busy   bool // the process is being given what next returned
	closed bool
}

func newStdinQueue() *stdinQueue {
	q := &stdinQueue{}
	q.change.L = &q.mu
	return q
}

// startAt sets the offset of the first byte that is not yet accepted.
func (q *stdinQueue) startAt(offset int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.offset = offset
}

// push adds a chunk. It skips bytes that were received before; a gap, or more than the
// window, is EINVAL.
func (q *stdinQueue) push(chunk *pb.StdinChunk) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := q.offset + int64(len(q.data))
	if chunk.Offset < 0 || chunk.Offset > end {
		return fmt.Errorf("standard input at offset %d leaves a gap after %d: %w", chunk.Offset, end, syscall.EINVAL)
	}
	data := chunk.Data
	data = data[min(end-chunk.Offset, int64(len(data))):]
	if len(q.data)+len(data) > wire.StdinWindow {
		return fmt.Errorf("standard input is over the window of %d bytes: %w", wire.StdinWindow, syscall.EINVAL)
	}
	q.data = append(q.data, data...)
	q.eof = q.eof || chunk.Eof
	q.change.Broadcast()
	return nil
}

// next waits for data or the end of input, and returns all queued data with its
// offset. ok is false once the queue is closed.
func (q *stdinQueue) next() (offset int64, data []byte, eof, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	for len(q.data) == 0 && !q.eof && !q.closed {
		q.change.Broadcast() // for flush
		q.change.Wait()
	}
	q.busy = true
	offset, data, eof = q.offset, q.data, q.eof
	q.offset += int64(len(data))
	q.data = nil
	return offset, data, eof, !q.closed
}

// accepted skips the bytes that the process already has, up to the offset next. They
// may have come from an earlier call of the same caller, whose connection was cut and
// which still writes. The caller continues at the offset that it was told.
func (q *stdinQueue) accepted(next int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if skip := next - q.offset; skip > 0 {
		q.data = q.data[min(skip, int64(len(q.data))):]
		q.offset = next
	}
}

// close makes next and flush return.
func (q *stdinQueue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.change.Broadcast()
}

// flush waits until the process has got everything that was pushed, but no longer
// than limit.
func (q *stdinQueue) flush(limit time.Duration) {
	over := false
	timer := time.AfterFunc(limit, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		over = true
		q.change.Broadcast()
	})
	defer timer.Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for (q.busy || q.eof || len(q.data) > 0) && !q.closed && !over {
		q.change.Wait()
	}
}
