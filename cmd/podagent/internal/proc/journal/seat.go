package journal

import (
	"slices"
	"time"
)

// seat is kept for a reader that is expected: the first one after the start, or
// one whose connection dropped.
type seat struct {
	name  string // the reader's
	at    [2]int64
	until time.Time
	first bool
}

// takeSeat ends the seat of a reader that has come back. The seat of the first reader ends
// with any reader.
func (o *Output) takeSeat(r *Reader) {
	o.seats = slices.DeleteFunc(o.seats, func(s seat) bool {
		return s.first || r.name != "" && s.name == r.name
	})
	if r.name == "" {
		o.takeNearestSeat(r.at)
		return
	}
	for old := range o.readers {
		if old.name == r.name && old != r {
			old.err = ErrReplaced
			delete(o.readers, old)
			wake(old.news)
		}
	}
}

// takeNearestSeat ends the seat that a reader without a name has most likely come back
// to: the nearest one that is not behind it, and not further ahead than a broken
// connection can lose.
func (o *Output) takeNearestSeat(at [2]int64) {
	replay := int64(max(o.lim.Disk.Replay, o.lim.Memory.Replay))
	best, bestAhead := -1, int64(0)
	for i, s := range o.seats {
		a, b := s.at[0]-at[0], s.at[1]-at[1]
		if s.name != "" || a < 0 || b < 0 || a > replay || b > replay {
			continue
		}
		if best < 0 || a+b < bestAhead {
			best, bestAhead = i, a+b
		}
	}
	if best >= 0 {
		o.seats = slices.Delete(o.seats, best, best+1)
	}
}

func (o *Output) expireSeats(now time.Time) {
	kept := o.seats[:0]
	for _, s := range o.seats {
		if now.Before(s.until) {
			kept = append(kept, s)
		}
	}
	o.seats = kept
}

// heldUntil is when the first of the readers and seats that hold the stream up times
// out. It is zero if all of them are about to take something.
func (s *Stream) heldUntil() time.Time {
	var first time.Time
	consider := func(at [2]int64, until time.Time) {
		if !until.IsZero() && (first.IsZero() || until.Before(first)) && s.heldBy(at) {
			first = until
		}
	}
	for r := range s.out.readers {
		consider(r.at, r.stallsAt())
	}
	for _, seat := range s.out.seats {
		consider(seat.at, seat.until)
	}
	return first
}

// expire detaches the readers that have held a stream up for too long, and ends the seats
// of those that did not come back.
func (o *Output) expire(now time.Time, holds func(at [2]int64) bool) {
	before := len(o.readers) + len(o.seats)
	o.expireSeats(now)
	for r := range o.readers {
		until := r.stallsAt()
		if !until.IsZero() && !now.Before(until) && holds(r.at) {
			r.err = ErrStalled
			delete(o.readers, r)
		}
	}
	// Otherwise a writer that calls this because it waits would wake itself.
	if len(o.readers)+len(o.seats) < before {
		o.wakeWriters()
		o.releaseForgotten()
	}
}
