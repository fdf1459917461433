package portforward

import (
	"net"
	"sync"
	"time"
)

// direction is the common part of inbox and outbox. Reads and writes wait on its
// condition for data or room, an error, or a deadline.
type direction struct {
	mu   sync.Mutex
	cond sync.Cond
	err  error // why the direction has ended; the first reason stays

	expired bool // the deadline has passed
	timer   *time.Timer
	set     uint // counts the deadlines, so that a timer can tell that it is outdated
}

// setDeadline makes waits fail from t on; the zero time means never.
func (d *direction) setDeadline(t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == net.ErrClosed {
		return d.err
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	d.set++
	d.expired = !t.IsZero() && !t.After(time.Now())
	if !t.IsZero() && !d.expired {
		current := d.set
		d.timer = time.AfterFunc(time.Until(t), func() { d.expire(current) })
	}
	d.cond.Broadcast()
	return nil
}

func (d *direction) expire(set uint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.set == set {
		d.expired = true
		d.cond.Broadcast()
	}
}

// fail ends the direction with err, unless it has already ended.
func (d *direction) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
	d.cond.Broadcast()
}

// close ends the direction with net.ErrClosed, even if it has already ended.
func (d *direction) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = net.ErrClosed
	if d.timer != nil {
		d.timer.Stop()
	}
	d.cond.Broadcast()
}

// reason returns why the direction has ended.
func (d *direction) reason() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}
