package egress

import (
	"net/http"
	"sync"
	"time"
)

// maskedAnswer is an answer to a client, in which a mask covers secrets. What may begin
// one at the end of a piece is held back until more comes, or maskWait is over.
type maskedAnswer struct {
	http.ResponseWriter
	mask *mask

	mu     sync.Mutex
	begun  bool // the header is written
	covers bool // the body is searched
	held   []byte
	timer  *time.Timer
	closed bool
}

// Unwrap is for [http.ResponseController], which takes over connections by it.
func (a *maskedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader masks the header. It adds nothing that the host has not sent.
func (a *maskedAnswer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	header := a.Header()
	a.mask.header(header)
	if status >= 200 {
		a.begun, a.covers = true, a.mask.covers(header)
		for _, name := range []string{"Content-Type", "Date"} {
			if header[name] == nil {
				header[name] = nil // net/http would make one up
			}
		}
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *maskedAnswer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.covers {
		return a.ResponseWriter.Write(p)
	}
	a.held = append(a.held, p...)
	a.mask.cover(a.held)
	n := a.mask.sure(a.held)
	err := a.pass(n)
	if len(a.held) > 0 {
		a.releaseLater()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// pass hands on the first n bytes of what is held.
func (a *maskedAnswer) pass(n int) error {
	if n == 0 {
		return nil
	}
	_, err := a.ResponseWriter.Write(a.held[:n])
	a.held = append(a.held[:0], a.held[n:]...)
	return err
}

func (a *maskedAnswer) releaseLater() {
	if a.timer == nil {
		a.timer = time.AfterFunc(maskWait, a.release)
		return
	}
	a.timer.Reset(maskWait)
}

// release hands on what was held for long enough. If that fails, so does the next write.
func (a *maskedAnswer) release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if a.pass(len(a.held)) == nil {
		_ = http.NewResponseController(a.ResponseWriter).Flush()
	}
}

// FlushError sends what is certain.
func (a *maskedAnswer) FlushError() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// close hands on the rest, of an answer that is whole, and masks its trailers. Of one that
// isn't, the rest is dropped.
func (a *maskedAnswer) close(whole bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.timer != nil {
		a.timer.Stop()
	}
	if !whole {
		return
	}
	_ = a.pass(len(a.held)) // the connection's end tells of an error
	if a.begun {
		a.mask.header(a.Header())
	}
}
