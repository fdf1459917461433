package portforward

import (
	"io"
	"sync"
	"time"
)

// closeReason notes how the two streams end, and delivers the reason once: io.EOF, the
// node's text, or a reset. The end of the data stream counts only together with that of
// the error stream, which may have an error text. Neither waits long for the other.
type closeReason struct {
	deliver func(error)

	mu        sync.Mutex
	text      []byte
	textEnded bool
	dataEnded bool
	dataReset bool
	delivered bool
	timer     *time.Timer
}

// addText adds to the node's error text. It keeps the beginning.
func (r *closeReason) addText(p []byte) {
	r.update(func() { r.text = append(r.text, p[:min(len(p), maxRemoteText-len(r.text))]...) })
}

// finished notes that the node has sent all of a stream.
func (r *closeReason) finished(id uint32) {
	r.update(func() {
		r.textEnded = r.textEnded || id == errorStream
		r.dataEnded = r.dataEnded || id == dataStream
	})
}

// reset notes that the node broke off a stream.
func (r *closeReason) reset(id uint32) {
	r.update(func() {
		r.textEnded = r.textEnded || id == errorStream
		r.dataReset = r.dataReset || id == dataStream
	})
}

// update changes the state, and delivers the reason if nothing more can come. A reset
// is final, because the text comes before it.
func (r *closeReason) update(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	hasText := len(r.text) > 0
	switch {
	case r.dataReset, r.textEnded && (r.dataEnded || hasText):
		r.conclude()
	case (r.dataEnded || hasText) && r.timer == nil:
		r.timer = time.AfterFunc(streamEndWait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.conclude()
		})
	}
}

func (r *closeReason) conclude() {
	if r.delivered {
		return
	}
	r.delivered = true
	switch {
	case len(r.text) > 0:
		r.deliver(&RemoteError{Text: string(r.text)})
	case r.dataReset:
		r.deliver(errReset)
	default:
		r.deliver(io.EOF)
	}
}

// stop ends the wait, since the link has ended, and delivers what is known.
func (r *closeReason) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
		r.conclude()
	}
}
