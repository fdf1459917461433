package proc

import (
	"sync"
	"sync/atomic"
	"time"
)

// output is both outputs of one process, those who read them, and the end.
//
// The pace: while there is a reader, an output stops being taken from its pipe
// when the journal is full of what the slowest reader has not taken yet, so
// that the process waits as it would for a full pipe.
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
	// takes is how much room the journals take, by medium, and births counts
	// their segments.
	takes  [2]int
	births int64
	// counted says that the budget knows of the output.
	counted bool
	// told says that somebody was told the end.
	told atomic.Bool
	// forgotten says that the journals go when nobody reads them any more.
	forgotten bool
}

// ending is the result of a process: its status, or why that is not known.
type ending struct {
	status Status
	err    error
}

func newOutput(lim *limits, pool *buffers, budget *budget, std *stdio) *output {
	o := &output{lim: lim, pool: pool, budget: budget, readers: map[*reader]struct{}{}}
	for i, src := range std.outputs {
		o.streams[i] = newStream(o, i, src)
		if src != nil && std.terminal != nil {
			o.streams[i].screen = newScreen()
		}
	}
	o.leases = []lease{{first: true, until: time.Now().Add(lim.attachGrace)}}
	return o
}

// heldUntil is when the first of those who hold the stream up has had its time.
// It is zero if all of them are about to take something.
func (s *stream) heldUntil() time.Time {
	var first time.Time
	consider := func(at [2]int64, until time.Time) {
		if !until.IsZero() && (first.IsZero() || until.Before(first)) && s.heldBy(at) {
			first = until
		}
	}
	for r := range s.out.readers {
		consider(r.at, r.stallsAt(s.out.lim))
	}
	for _, l := range s.out.leases {
		consider(l.at, l.until)
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
		o.releaseForgotten()
	}
}

// finish hands the result to everyone who reads to the end, and closes done for
// the others: at once, lest one be told of the end and the next that there is none.
func (o *output) finish(end *ending, done chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end = end
	close(done)
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

// describe adds the sizes of both streams to what is told of a process.
func (o *output) describe(i *Info) {
	o.mu.Lock()
	defer o.mu.Unlock()
	stdout, stderr := &o.streams[0].journal, &o.streams[1].journal
	i.Stdout, i.StdoutKept = stdout.end, int64(stdout.held())
	i.Stderr, i.StderrKept = stderr.end, int64(stderr.held())
}

func (o *output) wakeReaders() {
	for r := range o.readers {
		wake(r.news)
	}
}

func (o *output) wakePumps() {
	for _, s := range o.streams {
		if s.waiting {
			wake(s.space)
		}
	}
}

// wake leaves a token for the one who waits on c, now or next.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
