package journal

import (
	"math"
	"time"
)

// This file counts how much room an output takes, and gives bytes up when room is short.

// segment returns a new segment, or nil if all outputs together leave no room for it.
func (o *Output) segment(m medium, size int) *segment {
	g := &segment{size: size}
	if m == inMemory {
		if !o.budget.accounts[m].charge(size) {
			return nil
		}
		g.memory = o.budget.chunks.segment(size)
		return o.count(g)
	}
	slot, ok := o.budget.store.allocate(size)
	if !ok {
		return nil
	}
	g.slot = slot
	return o.count(g)
}

// forceSegment returns a new segment in memory in any case.
func (o *Output) forceSegment(size int) *segment {
	o.budget.accounts[inMemory].chargeAnyway(size)
	return o.count(&segment{size: size, memory: o.budget.chunks.segment(size)})
}

// count adds a segment to those of the output.
func (o *Output) count(g *segment) *segment {
	if !o.counted {
		o.counted = true
		o.budget.begin(o)
	}
	o.births++
	g.born = o.births
	o.takes[g.medium()] += g.size
	return g
}

// free gives a segment back.
func (o *Output) free(g *segment) {
	o.takes[g.medium()] -= g.size
	if g.medium() == onDisk {
		o.budget.store.free(g.slot, g.size)
		return
	}
	o.budget.accounts[inMemory].refund(g.size)
	o.budget.chunks.putSegment(g.memory)
	g.memory = nil
}

// drop forgets the bytes of the stream up to the end of its oldest segment of
// a medium.
func (s *Stream) drop(m medium) {
	for g := s.journal.first(m); ; {
		first := s.journal.segments[0]
		s.journal.dropOldest()
		s.out.free(first)
		if first == g {
			return
		}
	}
}

// dropOldest drops the process's oldest bytes that make room for this stream, if nobody
// needs them.
func (s *Stream) dropOldest() bool {
	v := s.victim()
	if v != nil {
		v.drop(s.medium)
	}
	return v != nil
}

// victim is the stream of the process that gives up its oldest bytes for those
// of this one. It is nil when someone still needs them.
func (s *Stream) victim() *Stream {
	var oldest *Stream
	for _, v := range s.out.streams {
		g := v.journal.first(s.medium)
		if g == nil || s.needs(s.out.low(v.index), v, g) {
			continue
		}
		if s.tight && v != s && len(v.journal.segments) < 3 {
			continue // little is left of that stream, too
		}
		if oldest == nil || g.born < oldest.journal.first(s.medium).born {
			oldest = v
		}
	}
	return oldest
}

// needs reports whether a reader at an offset of stream v needs its segment g, or may
// come back for it. Where room is short, less is kept to come back to.
func (s *Stream) needs(at int64, v *Stream, g *segment) bool {
	replay := int64(s.out.lim.bounds(s.medium).Replay)
	if s.tight {
		after := v.journal.end - g.end()
		replay = min(replay, (after+int64(g.n))/2, after)
	}
	return g.end() > at-replay
}

// heldBy reports whether a reader at these offsets keeps the process from dropping bytes
// that would make room for this stream.
func (s *Stream) heldBy(at [2]int64) bool {
	for i, v := range s.out.streams {
		if g := v.journal.first(s.medium); g != nil && s.needs(at[i], v, g) {
			return true
		}
	}
	return false
}

// low is the offset in stream i of the slowest reader, attached or expected.
func (o *Output) low(i int) int64 {
	low := int64(math.MaxInt64)
	for r := range o.readers {
		low = min(low, r.at[i])
	}
	for _, seat := range o.seats {
		low = min(low, seat.at[i])
	}
	return low
}

// unattended reports whether there are no readers, attached or expected.
func (o *Output) unattended() bool { return len(o.readers)+len(o.seats) == 0 }

// caughtUp reports whether all readers took everything and wait for more, and nobody
// is expected to come back and ask for some of it again.
func (o *Output) caughtUp() bool {
	for r := range o.readers {
		if !r.busy.IsZero() || r.at != [2]int64{o.streams[0].journal.end, o.streams[1].journal.end} {
			return false
		}
	}
	return len(o.seats) == 0
}

// shrink gives up the oldest bytes of both streams, if may allows it: need bytes of a
// medium, and never the last two segments.
func (o *Output) shrink(now time.Time, m medium, need int, may func(*Output) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expireSeats(now)
	if !may(o) {
		return
	}
	for _, s := range o.streams {
		for need > 0 && s.journal.count(m) > 2 {
			had := o.takes[m]
			s.drop(m)
			need -= had - o.takes[m]
		}
	}
}

// dropUnread gives up the journals of a sealed output, unless somebody still reads them
// or is expected to. Later readers are told how much was omitted.
func (o *Output) dropUnread(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now, func([2]int64) bool { return true })
	if o.unattended() {
		o.release()
	}
}

// Forget gives up the journals of a sealed output, as soon as the last reader has left.
func (o *Output) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgotten = true
	o.releaseForgotten()
}

func (o *Output) releaseForgotten() {
	if o.forgotten && len(o.readers) == 0 {
		o.release()
	}
}

// release gives up everything, the last segments too.
func (o *Output) release() {
	for _, s := range o.streams {
		for _, g := range s.journal.segments {
			o.free(g)
		}
		s.journal.segments = nil
		s.journal.skipTo(s.journal.end)
	}
	o.budget.remove(o)
}
