package proc

import (
	"context"
	"fmt"
	"iter"
	"syscall"
	"time"
)

// reader is one attached reader. It is guarded by the mutex of its output.
type reader struct {
	// at are the offsets of what it takes next.
	at [2]int64
	// news wakes it when there is something to take.
	news chan struct{}
	// turn is the stream that it looks at first, so that neither starves.
	turn int
	// busy is since when it has been at what it took last; zero while it
	// waits.
	busy time.Time
	// err is why it was detached.
	err error
	// done says that it got the end.
	done bool
}

// stallsAt is when the reader counts as stalled, if it takes nothing before.
func (r *reader) stallsAt(lim *limits) time.Time {
	if r.busy.IsZero() {
		return time.Time{}
	}
	return r.busy.Add(lim.stall)
}

// lease keeps the place of a reader that is expected: the first one after the
// start, or one whose connection dropped.
type lease struct {
	at    [2]int64
	until time.Time
	first bool
}

// Attach returns the output from the given offsets on: every byte of both
// streams exactly once, in order within each stream, and at last one event
// with the Status. What the journal no longer had is counted in the Omitted of
// the event after the gap, whose Data may then be empty.
//
// Several readers may be attached at once. While one is, a full journal makes
// the process wait; the slowest reader sets the pace, and one that takes
// nothing for stallLimit while it holds the process up gets [ErrStalled]. A
// reader that leaves before the Status keeps its place for attachGrace, and
// the next one at about the same offsets takes that over.
//
// The iteration also ends with the error of ctx, with [syscall.EINVAL] at an
// offset that is negative or after the end of the output so far, and with an
// error when it is not known how the process ended.
func (p *Process) Attach(ctx context.Context, stdout, stderr int64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		r, err := p.out.attach(stdout, stderr)
		if err != nil {
			yield(Event{}, fmt.Errorf("cannot attach to exec %s: %w", p.id, err))
			return
		}
		defer p.out.leave(r)
		for p.out.deliver(ctx, r, yield) {
		}
	}
}

func (o *output) attach(stdout, stderr int64) (*reader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &reader{at: [2]int64{stdout, stderr}, news: make(chan struct{}, 1)}
	for i, s := range o.streams {
		if r.at[i] < 0 || r.at[i] > s.journal.end {
			return nil, fmt.Errorf("offset %d is outside of the %d bytes written: %w", r.at[i], s.journal.end, syscall.EINVAL)
		}
	}
	o.readers[r] = struct{}{}
	o.redeem(r.at)
	o.wakePumps()
	return r, nil
}

// leave ends a reader. If it has not got everything, its place is kept.
func (o *output) leave(r *reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.readers, r)
	now := time.Now()
	o.expireLeases(now)
	if !r.done && r.err == nil {
		o.leases = append(o.leases, lease{at: r.at, until: now.Add(o.lim.attachGrace)})
	}
	o.wakePumps()
}

// deliver waits for the next event and yields it. It reports whether the
// iteration goes on.
func (o *output) deliver(ctx context.Context, r *reader, yield func(Event, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Event{}, err)
		return false
	}
	buf := o.pool.get()
	ev, ok, err := o.take(r, buf[:])
	if !ok && err == nil {
		o.pool.put(buf)
		select {
		case <-r.news:
		case <-ctx.Done():
		}
		return true
	}
	more := yield(ev, err) && err == nil && ev.Status == nil
	o.pool.put(buf)
	return more
}

// take returns the next event of a reader, if there is one.
func (o *output) take(r *reader, buf []byte) (Event, bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.busy = time.Time{}
	if r.err != nil {
		return Event{}, false, r.err
	}
	for range o.streams {
		i := r.turn
		r.turn = 1 - i
		if ev, ok := o.takeFrom(i, r, buf); ok {
			r.busy = time.Now()
			return ev, true, nil
		}
	}
	if o.end == nil {
		return Event{}, false, nil
	}
	r.done = true
	if o.end.err != nil {
		return Event{}, false, o.end.err
	}
	status := o.end.status
	return Event{Status: &status}, true, nil
}

func (o *output) takeFrom(i int, r *reader, buf []byte) (Event, bool) {
	s := o.streams[i]
	at := max(r.at[i], s.journal.start)
	n := s.journal.readAt(buf, at)
	omitted := at - r.at[i]
	if n == 0 && omitted == 0 {
		return Event{}, false
	}
	r.at[i] = at + int64(n)
	wake(s.space)
	return Event{Stream: Stream(i + 1), Offset: at, Data: buf[:n], Omitted: omitted}, true
}

// redeem ends the lease that a reader with these offsets has most likely come
// back for: the nearest one that is not behind it, and ahead by no more than
// what can have been lost on the way. The first reader ends the lease that was
// made for it, whatever its offsets.
func (o *output) redeem(at [2]int64) {
	best, bestAhead := -1, int64(0)
	kept := o.leases[:0]
	for _, l := range o.leases {
		if !l.first {
			kept = append(kept, l)
		}
	}
	o.leases = kept
	for i, l := range o.leases {
		a, b := l.at[0]-at[0], l.at[1]-at[1]
		if a < 0 || b < 0 || a > replay || b > replay {
			continue
		}
		if best < 0 || a+b < bestAhead {
			best, bestAhead = i, a+b
		}
	}
	if best >= 0 {
		o.leases = append(o.leases[:best], o.leases[best+1:]...)
	}
}

func (o *output) expireLeases(now time.Time) {
	kept := o.leases[:0]
	for _, l := range o.leases {
		if now.Before(l.until) {
			kept = append(kept, l)
		}
	}
	o.leases = kept
}
