package portforward

import (
	"net"
	"sync"
	"time"
)

// half is the common part of a connection's two directions: a condition, on which
// reads and writes wait for data or room, an error, or a deadline.
type half struct {
	mu   sync.Mutex
	cond sync.Cond
	err  error // why the direction has ended; the first reason stays

	expired bool // the deadline has passed
	timer   *time.Timer
	set     uint // counts the deadlines, so that a timer can tell that it is outdated
}

// setDeadline makes waits fail from t on; the zero time means never.
func (h *half) setDeadline(t time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == net.ErrClosed {
		return h.err
	}
	if h.timer != nil {
		h.timer.Stop()
	}
	h.set++
	h.expired = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !h.expired {
		current := h.set
		h.timer = time.AfterFunc(time.Until(t), func() { h.expire(current) })
	}
	h.cond.Broadcast()
	return nil
}

func (h *half) expire(set uint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set == set {
		h.expired = true
		h.cond.Broadcast()
	}
}

// fail ends the direction with err, unless it has already ended.
func (h *half) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
	h.cond.Broadcast()
}

// close ends the direction with net.ErrClosed, even if it has already ended.
func (h *half) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = net.ErrClosed
	if h.timer != nil {
		h.timer.Stop()
	}
	h.cond.Broadcast()
}

// reason returns why the direction has ended.
func (h *half) reason() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.err
}
