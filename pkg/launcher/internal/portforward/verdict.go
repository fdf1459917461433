package portforward

import (
	"io"
	"sync"
	"time"
)

// verdict notes how the two streams end, and delivers what that means, once. The
// data stream's end counts only together with the error stream's, which may say that
// it was not a clean one. Neither waits long for the other.
type verdict struct {
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
func (v *verdict) addText(p []byte) {
	v.update(func() { v.text = append(v.text, p[:min(len(p), maxRemoteText-len(v.text))]...) })
}

// finished notes that the node has sent all of a stream.
func (v *verdict) finished(id uint32) {
	v.update(func() {
		v.textEnded = v.textEnded || id == errorStream
		v.dataEnded = v.dataEnded || id == dataStream
	})
}

// reset notes that the node broke off a stream.
func (v *verdict) reset(id uint32) {
	v.update(func() {
		v.textEnded = v.textEnded || id == errorStream
		v.dataReset = v.dataReset || id == dataStream
	})
}

// update changes the state, and delivers the verdict if nothing more can come. A
// reset is final, because the text comes before it.
func (v *verdict) update(change func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change()
	hasText := len(v.text) > 0
	switch {
	case v.dataReset, v.textEnded && (v.dataEnded || hasText):
		v.conclude()
	case (v.dataEnded || hasText) && v.timer == nil:
		v.timer = time.AfterFunc(verdictWait, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.conclude()
		})
	}
}

func (v *verdict) conclude() {
	if v.delivered {
		return
	}
	v.delivered = true
	switch {
	case len(v.text) > 0:
		v.deliver(&RemoteError{Text: string(v.text)})
	case v.dataReset:
		v.deliver(errReset)
	default:
		v.deliver(io.EOF)
	}
}

// stop ends the wait, since the link has ended, and delivers what is known.
func (v *verdict) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer != nil {
		v.timer.Stop()
		v.conclude()
	}
}
