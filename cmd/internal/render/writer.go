package render

import (
	"bytes"
	"cmp"
	"io"
	"sync"
	"time"
)

const (
	// writeSize is how much is printed at once: large enough that system calls do not
	// matter.
	writeSize = 256 << 10
	// writeDelay is how long a result may wait for others to be printed with it:
	// short enough to follow a slow search.
	writeDelay = 5 * time.Millisecond
)

// A writer joins small texts into large writes. A text waits at most writeDelay,
// and the first one not at all.
type writer struct {
	out io.Writer
	// atOnce makes the writer write each text separately.
	atOnce bool

	mu    sync.Mutex
	text  []byte // yet to be written
	timer *time.Timer
	armed bool         // the timer will flush
	begun bool         // the first text was written
	async *asyncWriter // for large texts; nil before the first
	err   error        // the first one of out
}

// print lets add append to the pending text. Its error may be that of an earlier
// text.
func (w *writer) print(add func([]byte) []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = add(w.text)
	switch {
	case w.atOnce || !w.begun || len(w.text) >= writeSize:
		w.begun = true
		w.flushLocked()
	case w.armed:
	case w.timer == nil:
		w.timer = time.AfterFunc(writeDelay, func() { _ = w.flush() }) // the next print returns the error
		w.armed = true
	default:
		w.timer.Reset(writeDelay)
		w.armed = true
	}
	return w.err
}

// flush writes the pending text.
func (w *writer) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flushLocked()
	return w.err
}

func (w *writer) flushLocked() {
	w.armed = false
	if len(w.text) == 0 || w.err != nil {
		w.text = w.text[:0]
		return
	}
	if w.async == nil && len(w.text) < writeSize {
		_, w.err = w.out.Write(w.text)
		w.text = w.text[:0]
		return
	}
	if w.async == nil {
		w.async = newAsyncWriter(w.out)
	}
	w.text, w.err = w.async.write(w.text)
}

// end writes the pending text. It must be the last call.
func (w *writer) end() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.flushLocked()
	if w.async != nil {
		w.err = cmp.Or(w.err, w.async.end())
		w.async = nil
	}
	return w.err
}

// json prints v as one line.
func (w *writer) json(v any) error {
	var line bytes.Buffer
	if err := JSON(&line, v); err != nil {
		return err
	}
	return w.print(func(text []byte) []byte { return append(text, line.Bytes()...) })
}
