package proc

import (
	"context"
	"fmt"
	"iter"
	"syscall"
	"time"
)

// AttachOptions say how a reader attaches. The zero value reads all output and
// waits for the end.
type AttachOptions struct {
	// Stdout and Stderr are the offsets to go on from.
	Stdout, Stderr int64
	// Reader, if not empty, is the name of the reader, the same each time that
	// it attaches: it takes the place of the earlier one of that name.
	Reader string
	// Screen goes on from where what a terminal shows can be drawn anew,
	// whatever Stdout says, if the process has a terminal.
	Screen bool
	// NoFollow ends the iteration, detached, when all output so far was
	// delivered and the process still runs.
	NoFollow bool
	// NoOutput delivers only the end. Who attaches so does not count as a
	// reader, and holds up nobody.
	NoOutput bool
	// Detach, when it is closed, ends the iteration, detached. Nobody is
	// expected to come back: the place of the reader is not kept.
	Detach <-chan struct{}
}

// detached reports whether Detach is closed.
func (a *AttachOptions) detached() bool {
	select {
	case <-a.Detach:
		return true
	default:
		return false
	}
}

// Attach returns the output from the given offsets on: every byte of both
// streams exactly once, in order within each stream, and at last one event
// with the Status, or one that is Detached. What the journal no longer had is
// counted in the Omitted of the event after the gap, whose Data may then be
// empty.
//
// Several readers may be attached at once, each at its own pace. While one is,
// a full journal makes the process wait; the slowest reader sets the pace, and
// one that takes nothing for stallLimit while it holds the process up gets
// [ErrStalled]. A reader that leaves before the last event keeps its place for
// attachGrace for its return: for one of the same name, or, if it has none, for
// the next one at about the same offsets.
//
// The iteration also ends with the error of ctx, with [syscall.EINVAL] at an
// offset that is negative or after the end of the output so far, and with an
// error when it is not known how the process ended.
func (p *Process) Attach(ctx context.Context, opts AttachOptions) iter.Seq2[Event, error] {
	if opts.NoOutput {
		return p.awaitEnd(ctx, opts)
	}
	return func(yield func(Event, error) bool) {
		r, err := p.out.attach(opts)
		if err != nil {
			yield(Event{}, fmt.Errorf("cannot attach to exec %s: %w", p.id, err))
			return
		}
		defer p.out.leave(r)
		for p.out.deliver(ctx, opts, r, yield) {
		}
	}
}

// awaitEnd returns the last event alone.
func (p *Process) awaitEnd(ctx context.Context, opts AttachOptions) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) { yield(p.lastEvent(ctx, opts)) }
}

func (p *Process) lastEvent(ctx context.Context, opts AttachOptions) (Event, error) {
	if opts.NoFollow && !p.Ended() {
		return Event{Detached: true}, nil
	}
	select {
	case <-p.done:
	case <-opts.Detach:
		return Event{Detached: true}, nil
	case <-ctx.Done():
		return Event{}, ctx.Err()
	}
	if p.result.err != nil {
		return Event{}, p.result.err
	}
	p.out.told.Store(true)
	return Event{Status: new(p.result.status)}, nil
}

// Ended reports whether the process has ended and its output is complete.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (o *output) attach(opts AttachOptions) (*reader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &reader{name: opts.Reader, at: [2]int64{opts.Stdout, opts.Stderr}, until: endless, news: make(chan struct{}, 1)}
	if out := o.streams[0]; opts.Screen && out.screen != nil {
		r.at[0], r.prelude = out.screen.start(out.journal.start, out.journal.end)
	}
	for i, s := range o.streams {
		if r.at[i] < 0 || r.at[i] > s.journal.end {
			return nil, fmt.Errorf("offset %d is outside of the %d bytes written: %w", r.at[i], s.journal.end, syscall.EINVAL)
		}
		if opts.NoFollow {
			r.until[i] = s.journal.end
		}
	}
	o.readers[r] = struct{}{}
	o.redeem(r)
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
		o.leases = append(o.leases, lease{name: r.name, at: r.at, until: now.Add(o.lim.attachGrace)})
	}
	o.wakePumps()
	o.releaseForgotten()
}

// deliver waits for the next event and yields it. It reports whether the
// iteration goes on.
func (o *output) deliver(ctx context.Context, opts AttachOptions, r *reader, yield func(Event, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Event{}, err)
		return false
	}
	if opts.detached() {
		o.dismiss(r)
		yield(Event{Detached: true}, nil)
		return false
	}
	buf := o.pool.get()
	ev, ok, err := o.take(r, buf[:])
	if !ok && err == nil {
		o.pool.put(buf)
		select {
		case <-r.news:
		case <-ctx.Done():
		case <-opts.Detach:
		}
		return true
	}
	more := yield(ev, err) && err == nil && ev.Status == nil && !ev.Detached
	o.pool.put(buf)
	return more
}

// dismiss lets a reader go that does not come back.
func (o *output) dismiss(r *reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.done = true
}
