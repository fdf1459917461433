package proc

// Where a stream's bytes go: its first ones into memory, those of a longer
// output into the store, or into memory where there is none.

// extend gives the journal a segment to add to, of need bytes if it can. If it
// reports false there is no room until a reader takes something, leaves or has
// had its time. The caller holds the lock of the output, which may be released
// meanwhile.
func (s *stream) extend(need int) bool {
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

// extendAtOnce is [stream.extend] without the disk, for a little.
func (s *stream) extendAtOnce() bool {
	if s.out.budget.store.usable() {
		return s.startInMemory(1)
	}
	return s.extendInMemory(1)
}

// startInMemory takes memory for a short output: to write it to the disk would
// cost more than the memory is worth.
func (s *stream) startInMemory(need int) bool {
	held := s.journal.held()
	if last := s.journal.last(); held+need > journalHead || last != nil && last.medium() == onDisk {
		return false
	}
	size := doubled(journalStart, max(held, need), journalHead)
	if !s.out.budget.accounts[inMemory].takeBelow(size, headTotal) {
		return false
	}
	s.journal.add(s.out.count(&segment{size: size, memory: make([]byte, size)}))
	return true
}

func (s *stream) extendInMemory(need int) bool {
	held := s.journal.held()
	g := s.reserve(inMemory, doubled(journalStart, max(held, need), s.out.lim.memory.largest(chunkSize)))
	if g != nil {
		s.journal.add(g)
	}
	return g != nil
}

// extendOnDisk takes a slot, and moves what lies in memory into it.
func (s *stream) extendOnDisk(need int) bool {
	store, largest := s.out.budget.store, s.out.lim.disk.largest(slotMax)
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

// move puts the n bytes of the tail of the journal into g instead.
func (s *stream) move(tail []*segment, n int, g *segment) bool {
	o := s.out
	b := make([]byte, 0, n)
	for _, part := range tail {
		b = append(b, part.memory[:part.n]...)
	}
	o.mu.Unlock()
	err := o.budget.store.write(b, g.slot)
	o.mu.Lock()
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

// put writes b to where the last segment, g, goes on. It fails if the disk
// does: then nothing more is added to g.
func (s *stream) put(g *segment, b []byte) bool {
	if g.memory != nil {
		copy(g.memory[g.n:], b)
		return true
	}
	o := s.out
	o.mu.Unlock()
	err := o.budget.store.write(b, g.slot+int64(g.n))
	o.mu.Lock()
	if err != nil {
		g.full = true
		if g.n == 0 {
			s.journal.removeLast()
			o.free(g)
		}
	}
	return err == nil
}

// reserve returns a segment of a size, or of less where the room of all is
// short, or nil.
func (s *stream) reserve(m medium, size int) *segment {
	o := s.out
	s.medium, s.tight = m, false
	for o.takes[m]+size > o.lim.bounds(m).process {
		if !s.dropOldest() {
			return nil
		}
	}
	if g := o.segment(m, size); g != nil {
		return g
	}
	attended := !o.unattended()
	o.mu.Unlock()
	o.budget.reclaim(want{m, attended}, size)
	o.mu.Lock()
	if g := o.segment(m, size); g != nil {
		return g
	}
	return s.recycle(m, size)
}

// recycle drops the oldest bytes of the process for new ones, because the room
// of all is short. In memory every stream has a minimum besides.
func (s *stream) recycle(m medium, size int) *segment {
	o := s.out
	s.tight = true
	for {
		least := min(size, journalMin/2)
		if m == inMemory && (s.journal.count(m) < 2 || s.journal.size(m)+least <= journalMin) {
			return o.forceSegment(least)
		}
		v := s.victim()
		if v == nil {
			return nil
		}
		if m == onDisk {
			size = v.journal.first(m).size // the room of a slot is only given to one like it
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
