package proc

import (
	"errors"
	"os"
	"time"
)

// stream is one output of a process. A goroutine, the pump, moves it from its
// pipe to its journal, after [Process.attend] has moved what came at once.
type stream struct {
	out    *output
	index  int
	source *source
	// complete is closed when everything that belongs to the stream is in the
	// journal.
	complete chan struct{}
	// space wakes the pump when a reader has taken something.
	space chan struct{}
	// timer serves the pump while it waits for space.
	timer *time.Timer
	drain drain

	// Guarded by out.mu.
	journal journal
	// medium and tight say what room was last asked for: on which medium, and
	// whether that of all is short, so that less is kept behind those who
	// read.
	medium medium
	tight  bool
	// waiting says that the pump waits for room.
	waiting bool
	// screen follows what a terminal shows; nil without one.
	screen *screen
	// open says that a descendant held the pipe open when the stream was
	// complete.
	open bool
	// exited is when the process ended; zero while it runs.
	exited time.Time
}

func newStream(o *output, index int, src *source) *stream {
	return &stream{
		out:      o,
		index:    index,
		source:   src,
		complete: make(chan struct{}),
		space:    make(chan struct{}, 1),
	}
}

// pump fills the journal until the output ends, or the process has ended and
// its drain is over. What comes after that is read and discarded, so that a
// descendant which still writes does not get SIGPIPE, for as long as it lives.
func (s *stream) pump() {
	if s.source == nil {
		s.finish(false)
		return
	}
	defer s.source.close()
	for !s.drained() {
		err := s.source.read(s.out.pool, s.append)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			// Pipes have no errors besides their end.
			s.finish(false)
			return
		}
	}
	s.finish(true)
	s.source.file.SetReadDeadline(time.Time{})
	for {
		if err := s.source.read(s.out.pool, func([]byte) {}); err != nil {
			return
		}
	}
}

// watch has the runtime's poller wait for the output.
func (s *stream) watch() {
	if s.source != nil {
		s.source.watch()
	}
}

func (s *stream) finish(open bool) {
	s.out.mu.Lock()
	s.open = open
	s.out.mu.Unlock()
	close(s.complete)
}

// append adds b to the journal, waiting for the readers where it must.
func (s *stream) append(b []byte) {
	o := s.out
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(b) > 0 {
		g := s.journal.last()
		if g == nil || g.left() == 0 {
			if !s.extend(len(b)) {
				s.awaitSpace()
			}
			continue
		}
		n := min(len(b), g.left())
		if !s.put(g, b[:n]) {
			continue
		}
		if s.screen != nil {
			s.screen.observe(s.journal.end, b[:n])
		}
		s.journal.grow(n)
		b = b[n:]
		o.wakeReaders()
	}
}

// awaitSpace waits until a reader has taken something, left, or had its time.
// The caller holds the lock of the output, which is released meanwhile.
func (s *stream) awaitSpace() {
	o := s.out
	begun := time.Now()
	until := s.heldUntil()
	s.waiting = true
	o.mu.Unlock()
	s.sleep(until)
	o.mu.Lock()
	now := time.Now()
	s.waiting = false
	o.expire(now, s.heldBy)
	s.drain.pause(s.exited, begun, now)
}

func (s *stream) sleep(until time.Time) {
	if until.IsZero() {
		<-s.space
		return
	}
	if s.timer == nil {
		s.timer = time.NewTimer(time.Until(until))
	} else {
		s.timer.Reset(time.Until(until))
	}
	defer s.timer.Stop()
	select {
	case <-s.space:
	case <-s.timer.C:
	}
}

// processEnded starts the drain.
func (s *stream) processEnded(now time.Time) {
	s.out.mu.Lock()
	s.exited = now
	s.out.mu.Unlock()
	if s.source != nil && !s.isComplete() {
		s.source.file.SetReadDeadline(now.Add(s.out.lim.drain))
	}
}

func (s *stream) isComplete() bool {
	select {
	case <-s.complete:
		return true
	default:
		return false
	}
}

// drained reports whether the process has ended and its drain is over. If it
// has ended and the drain goes on, the next read waits for its rest only.
func (s *stream) drained() bool {
	s.out.mu.Lock()
	exited, end := s.exited, s.journal.end
	s.out.mu.Unlock()
	if exited.IsZero() {
		return false
	}
	left, over := s.drain.left(exited, end, s.out.lim.drain, s.source.pending)
	if !over {
		s.source.file.SetReadDeadline(time.Now().Add(left))
	}
	return over
}

// drain decides when a stream is complete although its pipe is still open.
// Only the pump uses it.
//
// The bytes that were in the pipe when the process ended are the process's
// own: they are waited for however slow the readers are. After those, time
// runs only while no reader holds the pump up, so that a pipeline's last
// command can finish; but then a descendant that never stops writing may add
// no more than drainBytes.
type drain struct {
	counted bool
	// owned is the offset up to which the bytes are the process's own.
	owned int64
	// paused is how long readers held the pump up since the process ended.
	paused time.Duration
}

// pause notes that readers held the pump up from begun to now.
func (d *drain) pause(exited, begun, now time.Time) {
	if exited.IsZero() {
		return
	}
	if begun.Before(exited) {
		begun = exited
	}
	d.paused += now.Sub(begun)
}

// left is how long the drain still runs.
func (d *drain) left(exited time.Time, end int64, limit time.Duration, pending func() int64) (time.Duration, bool) {
	if !d.counted {
		// The pump asks, between two reads: no byte is on its way.
		d.counted = true
		d.owned = end + pending()
	}
	if end < d.owned && pending() > 0 { // others may have taken some of them
		return limit, false
	}
	elapsed := time.Since(exited)
	endless := elapsed >= limit && end >= d.owned+drainBytes
	left := limit - (elapsed - d.paused)
	return left, left <= 0 || endless
}
