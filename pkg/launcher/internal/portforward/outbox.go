package portforward

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"sync"

	"github.com/moby/spdystream/spdy"
)

// headerSize is the length of a frame's header: the stream in four bytes, the
// flags in one, and the payload's length in three.
const headerSize = 8

// outbox gathers what is to be sent while the link is busy with what came
// before, and sends it as one data frame in one write.
type outbox struct {
	half
	// writing is held by one Write at a time, so that large ones do not mix.
	writing sync.Mutex

	data    []byte       // room for a header, and the payload of the next frame
	spare   []byte       // what data becomes when it is sent
	control bytes.Buffer // control frames, which leave behind the data
	framer  *spdy.Framer // writes into control
	closing bool         // send what there is, and end
	idle    bool         // nothing is being sent
}

func newOutbox() *outbox {
	b := &outbox{data: make([]byte, headerSize), spare: make([]byte, headerSize)}
	b.cond.L = &b.mu
	return b
}

// write copies p as room comes. It returns how much it copied, which leaves
// whatever the error.
func (b *outbox) write(p []byte) (n int, err error) {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		switch room := headerSize + maxFrame - len(b.data); {
		case b.err != nil:
			return n, b.err
		case b.expired:
			return n, os.ErrDeadlineExceeded
		case n == len(p):
			return n, nil
		case room > 0:
			k := min(room, len(p)-n)
			b.data = append(b.data, p[n:n+k]...)
			n += k
			b.cond.Broadcast()
		default:
			b.cond.Wait()
		}
	}
}

// sendControl queues control frames. It never waits: a link that is stuck
// loses them.
func (b *outbox) sendControl(frames ...spdy.Frame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closing {
		return
	}
	for _, frame := range frames {
		if b.control.Len() < maxControl {
			_ = b.framer.WriteFrame(frame) // into memory
		}
	}
	b.cond.Broadcast()
}

// finish lets nothing more in but the last frames, after which run returns.
// Writes end with err.
func (b *outbox) finish(err error, last ...spdy.Frame) {
	b.sendControl(last...)
	b.mu.Lock()
	b.closing = true
	b.mu.Unlock()
	b.fail(err)
}

// flush waits until all that was written is sent, or can no longer be.
func (b *outbox) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for !b.idle || b.pending() && !b.closing {
		b.cond.Wait()
	}
}

// rest says that nothing is sent any more.
func (b *outbox) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = true
	b.cond.Broadcast()
}

func (b *outbox) pending() bool {
	return len(b.data) > headerSize || b.control.Len() > 0
}

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
		b.mu.Lock()
		b.spare = batch
		b.mu.Unlock()
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
	batch := b.data
	b.data = b.spare[:headerSize]
	if payload := len(batch) - headerSize; payload > 0 {
		binary.BigEndian.PutUint32(batch, dataStream)
		binary.BigEndian.PutUint32(batch[4:], uint32(payload))
	} else {
		batch = batch[:0]
	}
	batch = append(batch, b.control.Bytes()...)
	b.control.Reset()
	b.cond.Broadcast()
	return batch
}
