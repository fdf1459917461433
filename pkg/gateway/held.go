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
	launcher launcher.Launcher

	mu     sync.Mutex
	byID   map[string]*heldSandbox
	closed bool
}

// heldSandbox is a sandbox that is open, or is being opened.
type heldSandbox struct {
	ready   chan struct{} // closed when sandbox or err is set
	sandbox *launcher.Sandbox
	ways    ways
	err     error

	// held.mu guards these.
	users   int
	dropped bool // nobody finds it any more: the last user closes it
	expiry  *time.Timer
}

func newHeld(l launcher.Launcher) *held { return &held{launcher: l, byID: map[string]*heldSandbox{}} }

// use calls do with the open sandbox of an id. If the sandbox turns out to be gone, the next call
// opens it again: it may be another's by then.
func (h *held) use(ctx context.Context, id string, do func(*launcher.Sandbox) error) error {
	s, err := h.get(ctx, id)
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
func (h *held) get(ctx context.Context, id string) (*heldSandbox, error) {
	for {
		s, mine := h.join(id)
		if mine {
			h.open(ctx, id, s)
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			h.release(id, s)
			return nil, ctx.Err()
		}
		if s.err == nil {
			return s, nil
		}
		h.release(id, s)
		if mine || ctx.Err() != nil || !errors.Is(s.err, context.Canceled) && !errors.Is(s.err, context.DeadlineExceeded) {
			return nil, s.err
		}
		// Who opened it has left, which is not this caller's doing.
	}
}

func (h *held) open(ctx context.Context, id string, s *heldSandbox) {
	defer close(s.ready)
	if s.sandbox, s.err = h.launcher.Open(ctx, id); s.err != nil {
		h.drop(id, s)
	}
}

// join returns the entry of an id, and whether the caller has to open it.
func (h *held) join(id string) (s *heldSandbox, mine bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s = h.byID[id]; s == nil {
		s, mine = &heldSandbox{ready: make(chan struct{})}, true
		if h.byID[id] = s; h.closed {
			s.dropped = true
			delete(h.byID, id)
		}
	}
	s.users++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	return s, mine
}

// put adds a sandbox that was just launched, in place of one of the same id that is open.
func (h *held) put(id string, sandbox *launcher.Sandbox) {
	s := &heldSandbox{ready: make(chan struct{}), sandbox: sandbox, users: 1}
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
