package gateway

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
)

// held are the sandboxes that the gateway has open.
type held struct {
	// open opens a sandbox. With wake it resumes one that sleeps.
	open func(ctx context.Context, id string, wake bool) (*launcher.Sandbox, error)
	// patience is how long a caller waits for a sandbox.
	patience time.Duration

	mu     sync.Mutex
	byID   map[string]*heldSandbox
	closed bool
}

// heldSandbox is a sandbox that is open, or is being opened.
type heldSandbox struct {
	wake    bool          // it is resumed if it sleeps
	ready   chan struct{} // closed when sandbox or err is set
	sandbox *launcher.Sandbox
	ways    ways
	err     error

	// held.mu guards these.
	users   int
	used    time.Time // when the last use ended
	dropped bool      // nobody finds it any more: the last user closes it
	expiry  *time.Timer
}

// use calls do with the open sandbox of an id. If the sandbox turns out to be gone, the next call
// opens it again: it may be another's by then.
func (h *held) use(ctx context.Context, id string, wake bool, do func(*launcher.Sandbox) error) error {
	s, err := h.get(ctx, id, wake)
	if err != nil {
		return err
	}
	defer h.release(id, s)
	err = do(s.sandbox)
	if err != nil && isOver(err) {
		h.drop(id, s)
	}
	return err
}

// isOver reports whether an error says that a sandbox will answer no more.
func isOver(err error) bool {
	for _, class := range []error{launcher.ErrGone, launcher.ErrStale, launcher.ErrPaused, launcher.ErrNotFound, launcher.ErrOtherKey} {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

// get returns the sandbox, which counts as used until release.
func (h *held) get(ctx context.Context, id string, wake bool) (*heldSandbox, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.patience, errNotYet)
	defer cancel()
	for {
		s, rested := h.join(ctx, id, wake)
		select {
		case <-s.ready:
		case <-ctx.Done():
			h.release(id, s)
			return nil, context.Cause(ctx)
		}
		switch {
		case s.err == nil && (!rested || s.answers(ctx)):
			return s, nil
		case s.err == nil: // it may have gone to sleep meanwhile
			h.drop(id, s)
		}
		h.release(id, s)
		if s.err != nil && (s.wake || !wake) {
			return nil, s.err
		}
	}
}

// answers reports whether the sandbox's agent does.
func (s *heldSandbox) answers(ctx context.Context) bool {
	_, err := s.sandbox.Info(ctx)
	return err == nil
}

// join returns the entry of an id, which it opens if there is none, and whether it was not used
// for so long that its sandbox may sleep by now.
func (h *held) join(ctx context.Context, id string, wake bool) (s *heldSandbox, rested bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s = h.byID[id]; s == nil {
		s = &heldSandbox{wake: wake, ready: make(chan struct{})}
		if h.closed {
			s.dropped = true
		} else {
			h.byID[id] = s
		}
		// Whoever comes first may leave, and the others wait on.
		go h.fill(context.WithoutCancel(ctx), id, s)
	}
	rested = s.users == 0 && !s.used.IsZero() && time.Since(s.used) > restedAfter
	s.users++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	return s, rested
}

// fill opens the sandbox of an entry.
func (h *held) fill(ctx context.Context, id string, s *heldSandbox) {
	defer close(s.ready)
	if s.sandbox, s.err = h.open(ctx, id, s.wake); s.err != nil {
		h.drop(id, s)
	}
}

// put adds a sandbox that was just launched, in place of one of the same id that is open.
func (h *held) put(id string, sandbox *launcher.Sandbox) {
	s := &heldSandbox{wake: true, ready: make(chan struct{}), sandbox: sandbox, users: 1}
	close(s.ready)
	h.mu.Lock()
	if old := h.byID[id]; old != nil {
		h.dropLocked(id, old)
	}
	if h.closed {
		s.dropped = true
	} else {
		h.byID[id] = s
	}
	h.mu.Unlock()
	h.release(id, s)
}

// release ends a use.
func (h *held) release(id string, s *heldSandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.users--
	s.used = time.Now()
	switch {
	case s.users > 0:
	case s.dropped:
		go s.close()
	default:
		s.expiry = time.AfterFunc(heldFor, func() { h.expire(id, s) })
	}
}

func (h *held) expire(id string, s *heldSandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.users == 0 {
		h.dropLocked(id, s)
	}
}

// drop lets nobody else use it.
func (h *held) drop(id string, s *heldSandbox) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(id, s)
}

// forget drops what is open of an id.
func (h *held) forget(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.byID[id]; s != nil {
		h.dropLocked(id, s)
	}
}

func (h *held) dropLocked(id string, s *heldSandbox) {
	if s.dropped {
		return
	}
	s.dropped = true
	if h.byID[id] == s {
		delete(h.byID, id)
	}
	if s.users == 0 {
		if s.expiry != nil {
			s.expiry.Stop()
		}
		go s.close()
	}
}

func (s *heldSandbox) close() {
	<-s.ready
	s.ways.close()
	if s.sandbox != nil {
		_ = s.sandbox.Close()
	}
}

// close closes all, those that are in use after their last use.
func (h *held) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for id, s := range h.byID {
		h.dropLocked(id, s)
	}
	return nil
}
