package journal

import "time"

// nextEvent returns the next event of a reader, if there is one.
func (o *Output) nextEvent(r *Reader, buf []byte) (ev Event, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.busy = time.Time{}
	for {
		if r.err != nil {
			return Event{}, false, r.err
		}
		if b := r.prelude; b != nil {
			r.prelude, r.busy = nil, time.Now()
			return Event{Offset: r.at[0] - int64(len(b)), Data: b}, true, nil
		}
		if o.finished {
			r.until = endless // for a reader that does not follow, too
		}
		i, found := o.nextStream(r)
		if !found {
			ev, ok := o.lastEvent(r)
			return ev, ok, nil
		}
		if ev, ok := o.nextBytes(i, r, buf); ok {
			r.turn = 1 - i
			r.busy = time.Now()
			o.wakeWriters()
			return ev, true, nil
		}
	}
}

// nextStream returns a stream that has something for the reader. If both have, they take
// turns.
func (o *Output) nextStream(r *Reader) (i int, found bool) {
	for _, i := range [...]int{r.turn, 1 - r.turn} {
		j := &o.streams[i].journal
		if r.at[i] < min(j.end, r.until[i]) || r.at[i] < j.start {
			return i, true
		}
	}
	return 0, false
}

// nextBytes returns the next bytes of stream i. It fails if they were dropped
// while it read them; then there are others.
func (o *Output) nextBytes(i int, r *Reader, buf []byte) (Event, bool) {
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
	return Event{Stream: i, Offset: at, Data: buf[:n], Omitted: omitted}, true
}

// read copies bytes of the journal into b, as many as lie together, at least
// one. It reads from the store unlocked, and returns 0 if they were dropped
// meanwhile, or can't be read.
func (s *Stream) read(b []byte, at int64) int64 {
	g := s.journal.at(at)
	if g.memory != nil {
		return s.readMemory(b, at)
	}
	b = b[:min(int64(len(b)), g.end()-at)]
	slot, end := g.slot+at-g.off, g.end()
	var err error
	s.out.unlocked(func() { err = s.out.budget.store.read(b, slot) })
	switch {
	case s.journal.start > at:
		return 0
	case err != nil:
		s.lose(end, err)
		return 0
	}
	return int64(len(b))
}

func (s *Stream) readMemory(b []byte, at int64) int64 {
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

// lose gives up bytes that cannot be read from the disk, up to an offset.
func (s *Stream) lose(end int64, err error) {
	s.out.budget.store.log.Error("output of a process was lost", "bytes", end-s.journal.start, "error", err)
	s.journal.skipTo(end)
	for len(s.journal.segments) > 1 && s.journal.segments[0].end() <= s.journal.start {
		s.out.free(s.journal.segments[0])
		s.journal.dropOldest()
	}
}

// lastEvent returns the last event of a reader that has taken all others, if it is due.
func (o *Output) lastEvent(r *Reader) (ev Event, ok bool) {
	if !o.finished && r.until == endless {
		return Event{}, false
	}
	r.done = true
	return Event{Finished: o.finished, Detached: !o.finished}, true
}
