package journal

import "time"

// Stream is one stream of an [Output], as its only writer sees it.
type Stream struct {
	out   *Output
	index int
	// observe is the argument of [Budget.NewOutput], or nil.
	observe func(offset int64, b []byte)
	// room wakes the writer when there may be room again.
	room chan struct{}
	// timer serves the writer while it waits for room.
	timer *time.Timer

	// out.mu guards the following fields: see [Output].

	journal journal
	// medium is the medium on which room was last asked for. tight says that room is
	// short, so that less is kept behind the readers.
	medium medium
	tight  bool
	// waiting says that the writer waits for room.
	waiting bool
}

// Append adds as much of b as there is room for, and returns how much that is. It does
// not wait for readers, but may wait for the disk. If it did not add all of b, the
// writer calls AwaitRoom.
func (s *Stream) Append(b []byte) (n int) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for n < len(b) {
		g := s.journal.last()
		if g == nil || g.left() == 0 {
			if !s.extend(len(b) - n) {
				s.waiting = true
				break
			}
			continue
		}
		part := b[n:min(len(b), n+g.left())]
		if !s.put(g, part) {
			continue
		}
		s.grow(part)
		n += len(part)
	}
	return n
}

// Fill lets read put bytes straight into memory until it returns none or an error, which
// Fill returns. It is for the head of a short output, before the first Append: if there
// is no more room for that, room is false. read is called with the lock, and so must not
// wait.
func (s *Stream) Fill(read func([]byte) (int, error)) (room bool, err error) {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	for {
		g := s.journal.last()
		if g == nil || g.left() == 0 {
			if s.journal.held() >= headSize || !s.extendAtOnce() {
				return false, nil
			}
			g = s.journal.last()
		}
		n, err := read(g.memory[g.n:g.size])
		if err != nil || n == 0 {
			return true, err
		}
		s.grow(g.memory[g.n : g.n+n])
	}
}

// grow counts b, which was put into the last segment, and tells the readers.
func (s *Stream) grow(b []byte) {
	if s.observe != nil {
		s.observe(s.journal.end, b)
	}
	s.journal.grow(len(b))
	s.out.wakeReaders()
}

// AwaitRoom waits until a reader has taken something, left, or timed out. It is for the
// writer, after an Append without enough room.
func (s *Stream) AwaitRoom() {
	o := s.out
	o.mu.Lock()
	until := s.heldUntil()
	o.mu.Unlock()
	s.sleep(until)
	o.mu.Lock()
	defer o.mu.Unlock()
	s.waiting = false
	o.expire(time.Now(), s.heldBy)
}

func (s *Stream) sleep(until time.Time) {
	if until.IsZero() {
		<-s.room
		return
	}
	if s.timer == nil {
		s.timer = time.NewTimer(time.Until(until))
	} else {
		s.timer.Reset(time.Until(until))
	}
	defer s.timer.Stop()
	select {
	case <-s.room:
	case <-s.timer.C:
	}
}

// Written is the number of bytes added so far.
func (s *Stream) Written() int64 {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.journal.end
}
