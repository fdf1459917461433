package proc

import "time"

// What an output gives up when the memory of all journals is short.

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

// drop gives up the journals of an ended process, unless a reader is still at
// them. The process's end stays known, and what was dropped is told to later
// readers as omitted.
func (o *output) drop(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now, func([2]int64) bool { return true })
	if !o.unattended() || o.forgotten {
		return
	}
	for _, s := range o.streams {
		o.budget.give(len(s.journal.ring))
		s.journal.drop()
	}
}

// shrink gives up the oldest bytes of both journals where may allows it: up to
// need bytes, and never the minimum.
func (o *output) shrink(now time.Time, need int, may func(*output) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expireLeases(now)
	if !may(o) || o.forgotten {
		return
	}
	for _, s := range o.streams {
		had := len(s.journal.ring)
		size := had
		for size > journalMin && had-size < need {
			size = max(size/2, journalMin)
		}
		if size < had {
			s.journal.resize(size)
			o.budget.give(had - size)
			need -= had - size
		}
	}
}

// forget takes the journals out of the account. Those who still read them may
// go on.
func (o *output) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forgotten = true
	for _, s := range o.streams {
		o.budget.give(len(s.journal.ring))
	}
}

// room is how many of n bytes the stream may take now. Its journal grows for
// them as far as the memory of all goes. The caller holds the lock of the
// output, which may be released meanwhile.
func (s *stream) room(n int) int {
	s.ahead = unread
	n = min(n, s.out.room(s.index))
	if n > 0 && !s.grow(min(s.journal.held()+n, JournalSize)) {
		s.ahead = len(s.journal.ring) / 2
	}
	return min(n, s.out.room(s.index))
}

// grow makes the journal hold need bytes. If it can't, it holds the minimum at
// least.
func (s *stream) grow(need int) bool {
	if s.resize(need) {
		return true
	}
	o := s.out
	more, attended := s.journal.sizeFor(need)-len(s.journal.ring), !o.unattended()
	o.mu.Unlock()
	o.budget.reclaim(more, attended)
	o.mu.Lock()
	if s.resize(need) {
		return true
	}
	if short := journalMin - len(s.journal.ring); short > 0 {
		o.budget.force(short)
		s.journal.resize(journalMin)
	}
	return need <= len(s.journal.ring)
}

func (s *stream) resize(need int) bool {
	size := s.journal.sizeFor(need)
	more := size - len(s.journal.ring)
	if more <= 0 {
		return true
	}
	if !s.out.budget.take(more) {
		return false
	}
	s.journal.resize(size)
	return true
}
