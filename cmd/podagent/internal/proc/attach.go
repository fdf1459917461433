package proc

import (
	"context"
	"fmt"
	"iter"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/journal"
)

// AttachOptions say how a reader attaches. The zero value reads all output and
// waits for the end.
type AttachOptions struct {
	// Stdout and Stderr are the offsets to go on from.
	Stdout, Stderr int64
	// Reader, if not empty, is the name of the reader. It replaces an attached reader
	// of the same name.
	Reader string
	// Screen begins, in place of Stdout, at the offset from which the screen of a
	// terminal can be drawn. Without a terminal it does nothing.
	Screen bool
	// NoFollow ends the iteration, detached, when the output so far is delivered and
	// the process still runs.
	NoFollow bool
	// NoOutput delivers only the end. Such a caller does not count as a
	// reader, and holds up nobody.
	NoOutput bool
	// Detach, when it is closed, ends the iteration, detached. The reader is not
	// expected back.
	Detach <-chan struct{}
}

// Attach returns the output from the given offsets on: every byte of both
// streams exactly once, in order within each stream, and at last one event
// with the Status, or one that is Detached. The event after a gap counts in
// Omitted what the journal no longer had, and its Data may then be empty.
//
// Several readers may be attached at once, each at its own pace. While one is,
// a full journal makes the process wait. The slowest reader sets the pace, and
// one that takes nothing for 10 s while it holds the process up gets
// [ErrStalled]. A reader that leaves before the last event is expected back for 30 s.
// It is recognized by its name or, if it has none, by its offsets. (stallLimit and
// attachGrace of package journal.)
//
// The iteration also ends with the error of ctx, with [syscall.EINVAL] at an
// offset that is negative or after the end of the output so far, and with an error
// if nobody knows how the process ended.
func (p *Process) Attach(ctx context.Context, opts AttachOptions) iter.Seq2[Event, error] {
	if opts.NoOutput {
		return p.awaitEnd(ctx, opts)
	}
	return func(yield func(Event, error) bool) {
		r, err := p.out.Attach(p.readOptions(opts))
		if err != nil {
			yield(Event{}, fmt.Errorf("cannot attach to exec %s: %w", p.id, err))
			return
		}
		for ev, err := range r.Events(ctx) {
			if !yield(p.event(ev, err)) {
				return
			}
		}
	}
}

func (p *Process) readOptions(opts AttachOptions) journal.ReadOptions {
	r := journal.ReadOptions{
		At:       [2]int64{opts.Stdout, opts.Stderr},
		Name:     opts.Reader,
		NoFollow: opts.NoFollow,
		Detach:   opts.Detach,
	}
	if opts.Screen && p.screen != nil {
		r.Replay = p.screen.start
	}
	return r
}

// event translates an event of the journal for a reader of the process. The end of the
// output becomes the end of the process.
func (p *Process) event(ev journal.Event, err error) (Event, error) {
	switch {
	case err != nil:
		return Event{}, err
	case ev.Finished:
		return p.endEvent()
	case ev.Detached:
		return Event{Detached: true}, nil
	}
	return Event{Stream: Stream(ev.Stream + 1), Offset: ev.Offset, Data: ev.Data, Omitted: ev.Omitted}, nil
}

// endEvent tells a reader how the process ended.
func (p *Process) endEvent() (Event, error) {
	if p.result.err != nil {
		return Event{}, p.result.err
	}
	p.told.Store(true)
	return Event{Status: new(p.result.status)}, nil
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
	return p.endEvent()
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
