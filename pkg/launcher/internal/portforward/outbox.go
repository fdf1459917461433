package portforward

import (
	"io"
	"os"
	"sync"
	"time"
)

// outbox gathers what is written while the link is busy, and sends it as one data
// frame in one write.
type outbox struct {
	direction
	// writing is held by one Write at a time, so that large ones do not mix.
	writing sync.Mutex
	buffers *bufferPool

	data    []byte      // a blank header and the payload of the next frame, or nil
	control []byte      // control frames, which leave after the data
	pinger  *time.Timer // sends the next ping
	closing bool        // run ends when all is sent
	idle    bool        // nothing is being sent
}

func newOutbox(buffers *bufferPool) *outbox {
	b := &outbox{buffers: buffers}
	b.cond.L = &b.mu
	return b
}

// write copies p, and waits for room. It returns how much it copied; that much is sent
// even if there is an error.
func (b *outbox) write(p []byte) (n int, err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch {
		case b.err != nil:
			return n, b.err
		case b.expired:
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		case b.room() > 0:
			n += b.add(p[n:])
		default:
			b.cond.Wait()
		}
	}
}

func (b *outbox) room() int {
	if b.data == nil {
		return maxFrame
	}
	return headerSize + maxFrame - len(b.data)
}

// add copies as much of p as there is room for.
func (b *outbox) add(p []byte) int {
	n := min(len(p), b.room())
	if b.data == nil {
		b.data = b.buffers.get()[:headerSize]
	}
	b.data = append(b.data, p[:n]...)
	b.cond.Broadcast()
	return n
}

// sendControl queues control frames. It never waits: if the link is stuck, they are
// lost.
func (b *outbox) sendControl(frames []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	if len(b.control) < maxControl {
		b.control = append(b.control, frames...)
	}
	b.cond.Broadcast()
}

// keepAlive sends pings from now on, the first one with this number. A client's are
// odd.
func (b *outbox) keepAlive(id uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	b.pinger = time.AfterFunc(pingPeriod, func() {
		b.sendControl(pingFrame(id))
		b.keepAlive(id + 2)
	})
}

// finish takes the last frame, and makes run return when all is sent. Further writes
// fail with err.
func (b *outbox) finish(err error, last []byte) {
	b.sendControl(last)
	b.mu.Lock()
	b.closing = true
	if b.pinger != nil {
		b.pinger.Stop()
	}
	b.mu.Unlock()
	b.fail(err)
}

// flush waits until all that was written is sent, or cannot be sent any more.
func (b *outbox) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.idle || b.pending() && !b.closing {
		b.cond.Wait()
	}
}

// rest notes that nothing is being sent any more.
func (b *outbox) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = true
	b.cond.Broadcast()
}

func (b *outbox) pending() bool { return len(b.data) > 0 || len(b.control) > 0 }

// run sends until finish was called and all is sent, or a write fails.
func (b *outbox) run(w io.Writer) error {
	defer b.rest()
	for {
		batch := b.next()
		if len(batch) == 0 {
			return nil
		}
		if _, err := w.Write(batch); err != nil {
			return err
		}
		b.buffers.put(batch)
	}
}

// next waits for something to send. The result is empty at the end.
func (b *outbox) next() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.pending() && !b.closing {
		if !b.idle {
			b.idle = true
			b.cond.Broadcast()
		}
		b.cond.Wait()
	}
	b.idle = false
	if b.data != nil {
		putDataHeader(b.data)
	}
	batch := append(b.data, b.control...)
	b.data, b.control = nil, nil
	b.cond.Broadcast()
	return batch
}
