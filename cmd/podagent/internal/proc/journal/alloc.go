package journal

// This file decides where a stream's bytes go: the first ones into memory, those of a
// longer output into the store, or into memory without a store.

// extend gives the journal a segment to add to, of need bytes if it can. If it reports
// false, there is no room until a reader takes something, leaves or times out.
func (s *Stream) extend(need int) bool {
	if s.out.budget.store.usable() {
		if s.startInMemory(need) || s.extendOnDisk(need) {
			return true
		}
		if s.journal.count(onDisk) > 1 && s.out.budget.store.usable() {
			return false
		}
	}
	return s.extendInMemory(need)
}

// extendAtOnce is [Stream.extend] for a little, and does not wait for the disk.
func (s *Stream) extendAtOnce() bool {
	if s.out.budget.store.usable() {
		return s.startInMemory(1)
	}
	return s.extendInMemory(1)
}

// startInMemory takes memory for a short output. Writing that to the disk would cost
// more than the memory is worth.
func (s *Stream) startInMemory(need int) bool {
	held := s.journal.held()
	if last := s.journal.last(); held+need > headSize || last != nil && last.medium() == onDisk {
		return false
	}
	size := doubled(firstSize, max(held, need), headSize)
	if !s.out.budget.accounts[inMemory].chargeBelow(size, headTotal) {
		return false
	}
	s.journal.add(s.out.count(&segment{size: size, memory: make([]byte, size)}))
	return true
}

func (s *Stream) extendInMemory(need int) bool {
	held := s.journal.held()
	g := s.reserve(inMemory, doubled(firstSize, max(held, need), s.out.lim.Memory.largest(ChunkSize)))
	if g != nil {
		s.journal.add(g)
	}
	return g != nil
}

// extendOnDisk takes a slot, and moves what lies in memory into it.
func (s *Stream) extendOnDisk(need int) bool {
	store, largest := s.out.budget.store, s.out.lim.Disk.largest(slotMax)
	_, n := s.journal.tailInMemory(largest)
	g := s.reserve(onDisk, store.slotSize(min(largest, max(n+need, s.journal.held()))))
	if g == nil {
		return false
	}
	if tail, n := s.journal.tailInMemory(g.size); n > 0 {
		return s.move(tail, n, g)
	}
	s.journal.add(g)
	return true
}

// move puts the n bytes of the tail of the journal into g instead. It writes to the
// store unlocked, and part of the tail may be dropped meanwhile.
func (s *Stream) move(tail []*segment, n int, g *segment) bool {
	o := s.out
	b := make([]byte, 0, n)
	for _, part := range tail {
		b = append(b, part.memory[:part.n]...)
	}
	var err error
	o.unlocked(func() { err = o.budget.store.write(b, g.slot) })
	if err != nil {
		o.free(g)
		return false
	}
	g.off, g.n, g.born = tail[0].off, n, tail[0].born
	for _, part := range s.journal.replace(g) {
		o.free(part)
	}
	return true
}

// put writes b to where the last segment, g, goes on: to the store unlocked. It fails if
// the disk does, and then nothing more is added to g.
func (s *Stream) put(g *segment, b []byte) bool {
	if g.memory != nil {
		copy(g.memory[g.n:], b)
		return true
	}
	o := s.out
	var err error
	o.unlocked(func() { err = o.budget.store.write(b, g.slot+int64(g.n)) })
	if err != nil {
		g.full = true
		if g.n == 0 {
			s.journal.removeLast()
			o.free(g)
		}
	}
	return err == nil
}

// reserve returns a segment of a size, or a smaller one if the room of all outputs is
// short, or nil. It reclaims room unlocked, since that locks other outputs.
func (s *Stream) reserve(m medium, size int) *segment {
	o := s.out
	s.medium, s.tight = m, false
	for o.takes[m]+size > o.lim.bounds(m).Process {
		if !s.dropOldest() {
			return nil
		}
	}
	if g := o.segment(m, size); g != nil {
		return g
	}
	attended := !o.unattended()
	o.unlocked(func() { o.budget.reclaim(want{m, attended}, size) })
	if g := o.segment(m, size); g != nil {
		return g
	}
	return s.recycle(m, size)
}

// recycle drops the oldest bytes of the process for new ones, because the room of all
// outputs is short. In memory every stream also has a minimum.
func (s *Stream) recycle(m medium, size int) *segment {
	o := s.out
	s.tight = true
	for {
		least := min(size, minSize/2)
		if m == inMemory && (s.journal.count(m) < 2 || s.journal.size(m)+least <= minSize) {
			return o.forceSegment(least)
		}
		v := s.victim()
		if v == nil {
			return nil
		}
		if m == onDisk {
			size = v.journal.first(m).size // a slot's room only goes to one of its size
		}
		v.drop(m)
		if g := o.segment(m, size); g != nil {
			return g
		}
	}
}

// doubled is from, doubled until it is need or limit.
func doubled(from, need, limit int) int {
	for from < need && from < limit {
		from *= 2
	}
	return min(from, limit)
}
