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
// when the slowest reader has as much left to take as the output may be ahead,
// so that the process waits as it would for a full pipe.
type output struct {
	lim    *limits
	pool   *buffers
	budget *budget

	mu      sync.Mutex
	streams [2]*stream
	readers map[*reader]struct{}
	leases  []lease
	// end is set when both streams are complete.
	end *ending
	// forgotten says that the journals are in no account any more.
	forgotten bool
}

// ending is the result of a process: its status, or why that is not known.
type ending struct {
	status Status
	err    error
}

func newOutput(lim *limits, pool *buffers, budget *budget, std *stdio) (*output, error) {
	o := &output{lim: lim, pool: pool, budget: budget, readers: map[*reader]struct{}{}}
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
	return int(max(0, low+int64(o.streams[i].ahead)-o.streams[i].journal.end))
}

// heldUntil is when the first of those who hold stream i up has had its time.
// It is zero if all of them are about to take something.
func (o *output) heldUntil(i int) time.Time {
	var first time.Time
	consider := func(at int64, until time.Time) {
		if at+int64(o.streams[i].ahead) > o.streams[i].journal.end || until.IsZero() {
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
