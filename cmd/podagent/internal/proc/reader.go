package proc

import (
	"math"
	"time"
)

// endless are offsets that no output reaches.
var endless = [2]int64{math.MaxInt64, math.MaxInt64}

// reader is one attached reader. It is guarded by the mutex of its output.
type reader struct {
	// name is the caller's, empty if it has none.
	name string
	// at are the offsets of what it takes next, and until those where it ends
	// if the process still runs.
	at, until [2]int64
	// prelude is what it gets first, in the place of the bytes before at[0]:
	// see screen.
	prelude []byte
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

// take returns the next event of a reader, if there is one.
func (o *output) take(r *reader, buf []byte) (ev Event, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.busy = time.Time{}
	for {
		if r.err != nil {
			return Event{}, false, r.err
		}
		if b := r.prelude; b != nil {
			r.prelude, r.busy = nil, time.Now()
			return Event{Stream: Stdout, Offset: r.at[0] - int64(len(b)), Data: b}, true, nil
		}
		if o.end != nil {
			r.until = endless // also for a reader that does not wait for that
		}
		i, found := o.next(r)
		if !found {
			return o.takeEnd(r)
		}
		if ev, ok := o.takeFrom(i, r, buf); ok {
			r.turn = 1 - i
			r.busy = time.Now()
			o.wakePumps()
			return ev, true, nil
		}
	}
}

// next returns a stream that has something for the reader: the other one than
// the last time, if both have.
func (o *output) next(r *reader) (i int, found bool) {
	for _, i := range [...]int{r.turn, 1 - r.turn} {
		j := &o.streams[i].journal
		if r.at[i] < min(j.end, r.until[i]) || r.at[i] < j.start {
			return i, true
		}
	}
	return 0, false
}

// takeFrom returns the next bytes of stream i. It fails if they were dropped
// while it read them: then there are others. The lock may be released
// meanwhile.
func (o *output) takeFrom(i int, r *reader, buf []byte) (Event, bool) {
	s := o.streams[i]
	at := max(r.at[i], s.journal.start)
	n := max(0, min(int64(len(buf)), s.journal.end-at, r.until[i]-at))
	if n > 0 {
		n = s.read(buf[:n], at)
		if n == 0 {
			return Event{}, false
		}
	}
	omitted := at - r.at[i]
	r.at[i] = at + n
	return Event{Stream: Stream(i + 1), Offset: at, Data: buf[:n], Omitted: omitted}, true
}

// read copies bytes of the journal into b, as many as lie together, at least
// one. It returns 0 if they were dropped meanwhile, or can't be read.
func (s *stream) read(b []byte, at int64) int64 {
	g := s.journal.at(at)
	if g.memory != nil {
		return s.readMemory(b, at)
	}
	b = b[:min(int64(len(b)), g.end()-at)]
	slot, end := g.slot+at-g.off, g.end()
	s.out.mu.Unlock()
	err := s.out.budget.store.read(b, slot)
	s.out.mu.Lock()
	switch {
	case s.journal.start > at:
		return 0
	case err != nil:
		s.lose(end, err)
		return 0
	}
	return int64(len(b))
}

func (s *stream) readMemory(b []byte, at int64) int64 {
	n := 0
	for n < len(b) && at+int64(n) < s.journal.end {
		g := s.journal.at(at + int64(n))
		if g.memory == nil {
			break
		}
		n += copy(b[n:], g.memory[at+int64(n)-g.off:g.n])
	}
	return int64(n)
}

// lose gives up what the disk does not give back, up to an offset.
func (s *stream) lose(end int64, err error) {
	s.out.budget.store.log.Error("output of a process was lost", "bytes", end-s.journal.start, "error", err)
	s.journal.skipTo(end)
	for len(s.journal.segments) > 1 && s.journal.segments[0].end() <= s.journal.start {
		s.out.free(s.journal.segments[0])
		s.journal.dropOldest()
	}
}

// takeEnd returns the last event of a reader that has taken all else, if it is
// there.
func (o *output) takeEnd(r *reader) (ev Event, ok bool, err error) {
	switch {
	case o.end == nil && r.until == endless:
		return Event{}, false, nil
	case o.end == nil:
		ev.Detached = true
	case o.end.err != nil:
		err = o.end.err
	default:
		ev.Status = new(o.end.status)
		o.told.Store(true)
	}
	r.done = true
	return ev, err == nil, err
}
