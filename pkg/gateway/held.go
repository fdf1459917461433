package gateway

import (
	"context"
	"errors"
	"log/slog"
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
	log      *slog.Logger
	// opened, unless nil, is called before a call works in a sandbox that is open.
	opened func(ctx context.Context, id string)

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
	worked  time.Time // when the last call came that keeps it from being idle
	check   *check    // the last one
	dropped bool      // nobody finds it any more: the last user closes it
	expiry  *time.Timer
}

// check asks a sandbox whether it is there, for all callers of the time.
type check struct {
	done chan struct{} // closed when ok is set
	ok   bool
}

// use calls do with the open sandbox of an id. If the sandbox turns out to be gone, the next call
// opens it again: it may be another's by then.
func (h *held) use(ctx context.Context, id string, wake bool, do func(*launcher.Sandbox) error) error {
	s, err := h.get(ctx, id, wake)
	if err != nil {
		return err
	}
	defer h.release(id, s)
	if h.opened != nil {
		h.opened(ctx, id)
	}
	err = do(s.sandbox)
	if err != nil && isSandboxGone(err) {
		h.drop(id, s)
	}
	return err
}

// isSandboxGone reports whether an error says that a sandbox will answer no more.
func isSandboxGone(err error) bool {
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
		s, there := h.join(ctx, id, wake)
		for _, ready := range []chan struct{}{s.ready, there.done} {
			select {
			case <-ready:
			case <-ctx.Done():
				h.release(id, s)
				return nil, context.Cause(ctx)
			}
		}
		switch {
		case s.err == nil && there.ok:
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

// ask finds out whether the sandbox's agent answers.
func (h *held) ask(ctx context.Context, id string, s *heldSandbox, c *check) {
	defer h.release(id, s)
	defer close(c.done)
	ctx, cancel := context.WithTimeout(ctx, h.patience)
	defer cancel()
	_, err := s.sandbox.Info(ctx)
	c.ok = err == nil
}

// join returns the entry of an id, which it opens if there is none, and the check that the caller
// must wait for: nobody works in a sandbox that may sleep by now, also of those who come while
// the first of them asks.
func (h *held) join(ctx context.Context, id string, wake bool) (*heldSandbox, *check) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.byID[id]
	if s == nil {
		s = &heldSandbox{wake: wake, ready: make(chan struct{}), worked: time.Now(), check: fresh}
		if h.closed {
			s.dropped = true
		} else {
			h.byID[id] = s
		}
		// Whoever comes first may leave, and the others wait on.
		go h.fill(context.WithoutCancel(ctx), id, s)
	}
	if s.isOpen() && time.Since(s.worked) > restedAfter && s.check.hasEnded() {
		s.check = &check{done: make(chan struct{})}
		s.users++ // ask is one
		go h.ask(context.WithoutCancel(ctx), id, s, s.check)
	}
	if wake {
		s.worked = time.Now()
	}
	s.users++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
	return s, s.check
}

// fresh is the check of a sandbox that was just opened.
var fresh = func() *check {
	c := &check{done: make(chan struct{}), ok: true}
	close(c.done)
	return c
}()

// isOpen reports whether the sandbox is there to be asked: one that is just being opened needs no check.
func (s *heldSandbox) isOpen() bool {
	select {
	case <-s.ready:
		return s.err == nil
	default:
		return false
	}
}

// hasEnded reports whether the sandbox has answered, or failed to.
func (c *check) hasEnded() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// fill opens the sandbox of an entry.
func (h *held) fill(ctx context.Context, id string, s *heldSandbox) {
	defer close(s.ready)
	if s.sandbox, s.err = h.open(ctx, id, s.wake); s.err != nil {
		h.log.InfoContext(ctx, "cannot open a sandbox", "sandbox", id, "error", s.err) // callers may have left
		h.drop(id, s)
	}
}

// put adds a sandbox that was just launched, in place of one of the same id that is open.
func (h *held) put(id string, sandbox *launcher.Sandbox) {
	s := &heldSandbox{wake: true, ready: make(chan struct{}), sandbox: sandbox, users: 1, worked: time.Now(), check: fresh}
	close(s.ready)
	h.mu.Lock()
	h.forgetLocked(id)
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
	h.forgetLocked(id)
}

// forgetLocked is forget for who has the lock. What is held as perhaps foreign goes, too: a tenant's own
// sandbox comes first.
func (h *held) forgetLocked(id string) {
	for _, id := range []string{id, foreignIDOf(id)} {
		if s := h.byID[id]; s != nil {
			h.dropLocked(id, s)
		}
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
