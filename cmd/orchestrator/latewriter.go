package main

import (
	"io"
	"sync"
	"time"
)

// finishTime is how long the rest of what was written may take to go out.
const finishTime = time.Second

// lateWriter writes in a goroutine of its own. While it waits for the reader, what is written meanwhile
// collects, up to pipeBuffer bytes, and goes out at once. An error comes with a later write.
type lateWriter struct {
	to   io.Writer
	done chan struct{} // closed when nothing more is written

	mu      sync.Mutex
	changed sync.Cond
	waiting []byte
	ended   bool
	err     error
}

func newLateWriter(to io.Writer) *lateWriter {
	w := &lateWriter{to: to, done: make(chan struct{})}
	w.changed.L = &w.mu
	go w.run()
	return w
}

// Write implements io.Writer.
func (w *lateWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for n < len(p) {
		for w.err == nil && !w.ended && len(w.waiting) == pipeBuffer {
			w.changed.Wait()
		}
		if w.err != nil {
			return n, w.err
		}
		if w.ended {
			return n, io.ErrClosedPipe
		}
		part := p[n:min(len(p), n+pipeBuffer-len(w.waiting))]
		w.waiting = append(w.waiting, part...)
		n += len(part)
		w.changed.Broadcast()
	}
	return n, nil
}

// run writes what waits, until the end.
func (w *lateWriter) run() {
	defer close(w.done)
	var taken []byte
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && !w.ended {
			w.changed.Wait()
		}
		taken, w.waiting = w.waiting, taken[:0]
		w.changed.Broadcast()
		w.mu.Unlock()
		if len(taken) == 0 {
			return
		}
		if _, err := w.to.Write(taken); err != nil {
			w.fail(err)
			return
		}
	}
}

func (w *lateWriter) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.changed.Broadcast()
}

// finish takes no more, and waits until the rest is written, but not for a reader that does not read.
func (w *lateWriter) finish() {
	w.mu.Lock()
	w.ended = true
	w.changed.Broadcast()
	w.mu.Unlock()
	select {
	case <-w.done:
	case <-time.After(finishTime):
	}
}
