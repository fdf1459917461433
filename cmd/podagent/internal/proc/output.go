package proc

import (
	"math"
	"os"
	"sync"
	"time"
)

// output is both outputs of one process, those who read them, and the end.
//
// The pace: while there is a reader, an output stops being taken from its pipe
// when the slowest reader has JournalSize-Replay bytes left to take, so that
// the process waits as it would for a full pipe.
type output struct {
	lim  *limits
	pool *buffers

	mu      sync.Mutex
	streams [2]*stream
	readers map[*reader]struct{}
	leases  []lease
	// end is set when both streams are complete.
	end *ending
}

// ending is the result of a process: its status, or why that is not known.
type ending struct {
	status Status
	err    error
}

func newOutput(lim *limits, pool *buffers, std *stdio) (*output, error) {
	o := &output{lim: lim, pool: pool, readers: map[*reader]struct{}{}}
	for i, file := range []*os.File{std.stdout, std.stderr} {
		src, err := newSource(file, pool)
		if err != nil {
			return nil, err
		}
		o.streams[i] = newStream(o, i, src)
	}
	o.leases = []lease{{first: true, until: time.Now().Add(lim.attachGrace)}}
	return o, nil
}

// room is how many bytes stream i may still take.
func (o *output) room(i int) int {
	low := int64(math.MaxInt64)
	for r := range o.readers {
		low = min(low, r.at[i])
	}
	for _, l := range o.leases {
		low = min(low, l.at[i])
	}
	if low == math.MaxInt64 {
		return math.MaxInt
	}
	return int(max(0, low+unread-o.streams[i].journal.end))
}

// heldUntil is when the first of those who hold stream i up has had its time.
// It is zero if all of them are about to take something.
func (o *output) heldUntil(i int) time.Time {
	var first time.Time
	consider := func(at int64, until time.Time) {
		if at+unread > o.streams[i].journal.end || until.IsZero() {
			return
		}
		if first.IsZero() || until.Before(first) {
			first = until
		}
	}
	for r := range o.readers {
		consider(r.at[i], r.stallsAt(o.lim))
	}
	for _, l := range o.leases {
		consider(l.at[i], l.until)
	}
	return first
}

// expire detaches the readers that hold a stream up for too long, and forgets
// those that did not come back.
func (o *output) expire(now time.Time, holds func(at [2]int64) bool) {
	before := len(o.readers) + len(o.leases)
	o.expireLeases(now)
	for r := range o.readers {
		until := r.stallsAt(o.lim)
		if !until.IsZero() && !now.Before(until) && holds(r.at) {
			r.err = ErrStalled
			delete(o.readers, r)
		}
	}
	// Only then: a pump that calls this while it waits would wake itself.
	if len(o.readers)+len(o.leases) < before {
		o.wakePumps()
	}
}

// finish hands the result to everyone who reads to the end.
func (o *output) finish(end *ending) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = end
	o.wakeReaders()
}

// sizes are the total numbers of bytes of both streams, and whether one was
// still open at its end.
func (o *output) sizes() (stdout, stderr int64, open bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a, b := o.streams[0], o.streams[1]
	return a.journal.end, b.journal.end, a.open || b.open
}

// weight is the memory that the journals take.
func (o *output) weight() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.streams[0].journal.ring) + len(o.streams[1].journal.ring)
}

// drop gives up the journals of an ended process, unless a reader is still at
// them and force is false. It reports whether it did.
func (o *output) drop(now time.Time, force bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.expire(now, func([2]int64) bool { return true })
	if len(o.readers)+len(o.leases) > 0 && !force {
		return false
	}
	for _, s := range o.streams {
		s.journal.drop()
	}
	return true
}

func (o *output) wakeReaders() {
	for r := range o.readers {
		wake(r.news)
	}
}

func (o *output) wakePumps() {
	for _, s := range o.streams {
		wake(s.space)
	}
}

// wake leaves a token for the one who waits on c, now or next.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
