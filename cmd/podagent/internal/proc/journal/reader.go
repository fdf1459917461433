package journal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"syscall"
	"time"
)

var (
	// ErrStalled says that a reader was detached because it took nothing for too
	// long ([Limits.Stall]) and held the writer up. It can attach again, by
	// offset.
	ErrStalled = errors.New("reader was detached: it took no output for too long")
	// ErrReplaced says that a reader was detached because another one of its
	// name attached.
	ErrReplaced = errors.New("reader was replaced by another one of its name")
)

// ReadOptions say how a reader attaches. The zero value reads all output and waits for the
// end.
type ReadOptions struct {
	// At are the offsets to go on from, by stream.
	At [2]int64
	// Name, if not empty, is the name of the reader. It replaces an attached reader of
	// the same name.
	Name string
	// Replay, if not nil, says where to begin in the first stream, instead of At[0].
	// The stream has its bytes from kept to end. The prelude is sent first, instead
	// of as many bytes before the offset. Replay is called with the lock of the
	// output, and so must not wait.
	Replay func(kept, end int64) (offset int64, prelude []byte)
	// NoFollow ends the events, detached, at the offset where the output ended when the
	// reader attached.
	NoFollow bool
	// Closing Detach ends the events, detached. The reader is not expected back.
	Detach <-chan struct{}
}

// Event is bytes of a stream, or the end of the events.
type Event struct {
	// Stream is the number of the stream that Data belongs to.
	Stream int
	// Offset is the position of Data in its stream.
	Offset int64
	// Data is valid until the iteration goes on.
	Data []byte
	// Omitted is the number of bytes before Offset that are no longer kept.
	Omitted int64
	// The last event has Finished set, after all output, or Detached, if the options
	// end the iteration earlier.
	Finished, Detached bool
}

// endless are offsets that no output reaches.
var endless = [2]int64{math.MaxInt64, math.MaxInt64}

// Reader is one attached reader. The caller of Attach iterates over its Events, once.
type Reader struct {
	out *Output
	// detach is ReadOptions.Detach.
	detach <-chan struct{}

	// out.mu guards the following fields.

	// name is ReadOptions.Name.
	name string
	// at are the offsets of the reader's next bytes. It ends at the offsets until if
	// the output is not finished.
	at, until [2]int64
	// prelude comes first, in place of as many bytes before at[0].
	prelude []byte
	// news wakes the reader when there is something to take.
	news chan struct{}
	// turn is the stream that the reader looks at first, so that neither starves.
	turn int
	// busy is when the reader began to handle its last event; zero while it waits.
	busy time.Time
	// err is why the reader was detached.
	err error
	// done says that the reader got its last event.
	done bool
}

// Attach adds a reader. An offset that is negative or after the end of the output so far
// is [syscall.EINVAL].
func (o *Output) Attach(opts ReadOptions) (*Reader, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := &Reader{out: o, detach: opts.Detach, name: opts.Name, at: opts.At, until: endless, news: make(chan struct{}, 1)}
	if opts.Replay != nil {
		first := &o.streams[0].journal
		r.at[0], r.prelude = opts.Replay(first.start, first.end)
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
	o.takeSeat(r)
	o.wakeWriters()
	return r, nil
}

// Events returns what the reader gets, and detaches it afterwards. A reader that leaves
// before its last event is expected back for [Limits.AttachGrace]. The iteration ends
// with the error of ctx, [ErrStalled] or [ErrReplaced].
func (r *Reader) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		defer r.out.leave(r)
		for r.deliver(ctx, yield) {
		}
	}
}

// leave ends a reader. If it has not got everything, it gets a seat.
func (o *Output) leave(r *Reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.readers, r)
	now := time.Now()
	o.expireSeats(now)
	if !r.done && r.err == nil {
		o.seats = append(o.seats, seat{name: r.name, at: r.at, until: now.Add(o.lim.AttachGrace)})
	}
	o.wakeWriters()
	o.releaseForgotten()
}

// deliver waits for the next event and yields it. It reports whether the
// iteration goes on.
func (r *Reader) deliver(ctx context.Context, yield func(Event, error) bool) bool {
	if err := ctx.Err(); err != nil {
		yield(Event{}, err)
		return false
	}
	if r.detached() {
		r.out.dismiss(r)
		yield(Event{Detached: true}, nil)
		return false
	}
	chunks := r.out.budget.Chunks()
	buf := chunks.Get()
	ev, ok, err := r.out.nextEvent(r, buf[:])
	if !ok && err == nil {
		chunks.Put(buf)
		select {
		case <-r.news:
		case <-ctx.Done():
		case <-r.detach:
		}
		return true
	}
	more := yield(ev, err) && err == nil && !ev.Finished && !ev.Detached
	chunks.Put(buf)
	return more
}

// detached reports whether ReadOptions.Detach is closed.
func (r *Reader) detached() bool {
	select {
	case <-r.detach:
		return true
	default:
		return false
	}
}

// dismiss removes a reader that does not come back.
func (o *Output) dismiss(r *Reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.done = true
}

// stallsAt is when the reader counts as stalled, if it takes nothing before.
func (r *Reader) stallsAt() time.Time {
	if r.busy.IsZero() {
		return time.Time{}
	}
	return r.busy.Add(r.out.lim.Stall)
}
