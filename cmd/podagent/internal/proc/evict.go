package proc

import (
	"math"
	"time"
)

// What an output takes, and gives up when room is short.

// segment returns a new segment, nil if the room of all does not last for it.
func (o *output) segment(m medium, size int) *segment {
	g := &segment{size: size}
	if m == inMemory {
		if !o.budget.accounts[m].take(size) {
			return nil
		}
		g.memory = o.pool.segment(size)
		return o.count(g)
	}
	slot, ok := o.budget.store.take(size)
	if !ok {
		return nil
	}
	g.slot = slot
	return o.count(g)
}

// forceSegment returns a new segment in memory in any case.
func (o *output) forceSegment(size int) *segment {
	o.budget.accounts[inMemory].force(size)
	return o.count(&segment{size: size, memory: o.pool.segment(size)})
}

// count adds a segment to what the output takes.
func (o *output) count(g *segment) *segment {
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
func (o *output) free(g *segment) {
	o.takes[g.medium()] -= g.size
	if g.medium() == onDisk {
		o.budget.store.free(g.slot, g.size)
		return
	}
	o.budget.accounts[inMemory].give(g.size)
	o.pool.putSegment(g.memory)
	g.memory = nil
}

// drop forgets the bytes of the stream up to the end of its oldest segment of
// a medium.
func (s *stream) drop(m medium) {
	for g := s.journal.first(m); ; {
		first := s.journal.segments[0]
		s.journal.dropOldest()
		s.out.free(first)
		if first == g {
			return
		}
	}
}

// dropOldest drops the oldest bytes of the process that make room where this
// stream needs it, if nobody needs them.
func (s *stream) dropOldest() bool {
	v := s.victim()
	if v != nil {
		v.drop(s.medium)
	}
	return v != nil
}

// victim is the stream of the process whose oldest bytes are to go for those
// of this one. It is nil when someone still needs them.
func (s *stream) victim() *stream {
	var oldest *stream
	for _, v := range s.out.streams {
		g := v.journal.first(s.medium)
		if g == nil || s.needs(s.out.low(v.index), v, g) {
			continue
		}
		if s.tight && v != s && len(v.journal.segments) < 3 {
			continue // little is left of that, too
		}
		if oldest == nil || g.born < oldest.journal.first(s.medium).born {
			oldest = v
		}
	}
	return oldest
}

// needs reports whether one who goes on at an offset of stream v needs its
// segment g, or may come back for it.
func (s *stream) needs(at int64, v *stream, g *segment) bool {
	replay := int64(s.out.lim.bounds(s.medium).replay)
	if s.tight {
		after := v.journal.end - g.end()
		replay = min(replay, (after+int64(g.n))/2, after)
	}
	return g.end() > at-replay
}

// heldBy reports whether one who goes on at these offsets keeps the process
// from dropping what makes room for this stream.
func (s *stream) heldBy(at [2]int64) bool {
	for i, v := range s.out.streams {
		if g := v.journal.first(s.medium); g != nil && s.needs(at[i], v, g) {
			return true
		}
	}
	return false
}

// low is the offset in stream i of the slowest of those who read, or are
// expected to.
func (o *output) low(i int) int64 {
	low := int64(math.MaxInt64)
	for r := range o.readers {
		low = min(low, r.at[i])
	}
	for _, l := range o.leases {
		low = min(low, l.at[i])
	}
	return low
}

// unattended reports whether nobody reads, or is expected to.
func (o *output) unattended() bool { return len(o.readers)+len(o.leases) == 0 }

// caughtUp reports whether all who read took everything and wait for more.
// Nobody is expected to come back and ask for some of it again.
func (o *output) caughtUp() bool {
	for r := range o.readers {
		if !r.busy.IsZero() || r.at != [2]int64{o.streams[0].journal.end, o.streams[1].journal.end} {
			return false
		}
	}
	return len(o.leases) == 0
}

// shrink gives up the oldest bytes of both streams where may allows it: need
// bytes of a medium, and never the last two segments.
func (o *output) shrink(now time.Time, m medium, need int, may func(*output) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expireLeases(now)
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

// drop gives up the journals of an ended process, unless a reader is still at
// them. The process's end stays known, and what was dropped is told to later
// readers as omitted.
func (o *output) drop(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now, func([2]int64) bool { return true })
	if o.unattended() {
		o.release()
	}
}

// processEnded says that nothing is added any more.
func (o *output) processEnded() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counted {
		o.budget.end(o, [2]bool{o.takes[inMemory] > 0, o.takes[onDisk] > 0})
	}
}

// forget gives up the journals of an ended process, as soon as those who still
// read them have left.
func (o *output) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgotten = true
	o.releaseForgotten()
}

func (o *output) releaseForgotten() {
	if o.forgotten && len(o.readers) == 0 {
		o.release()
	}
}

// release gives up everything. Nothing is added any more.
func (o *output) release() {
	for _, s := range o.streams {
		for _, g := range s.journal.segments {
			o.free(g)
		}
		s.journal.segments = nil
		s.journal.skipTo(s.journal.end)
	}
	o.budget.remove(o)
}
