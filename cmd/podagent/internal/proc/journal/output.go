package journal

import (
	"sync"
	"time"
)

// Output is both streams of one process, and their readers.
//
// The pace: while there is a reader, the writer of a stream gets no more room when the
// journal is full of bytes that the slowest reader has not taken yet. The process then
// waits, as for a full pipe.
//
// # The lock
//
// One lock, Output.mu, guards all of an output: its streams with their journals, its
// readers and its seats. The exported methods take the lock themselves, and so do leave,
// nextEvent, dismiss, shrink and dropUnread. All other methods of Output and [Stream] are
// called with the lock held, except Stream.sleep, which waits and holds nothing. The
// budget, the accounts and the store have locks of their own.
//
// [Output.unlocked] is the only place that gives the lock up in the middle. Four methods
// use it: put and move write to the store, read reads from it, and reserve has the budget
// reclaim room from other outputs. Their callers, up to the exported method, must not
// rely on what they saw before.
//
// The order: with the lock of an output held, a goroutine may take the lock of the budget,
// of the store or of an account, but never another output's. [Budget.reclaim] locks one
// output at a time, under a lock of its own, and so is called with no output locked.
//
// What holds whenever the lock is free:
//
//   - Each stream has one writer. Only the writer adds segments or fills the last one.
//     Others drop segments from the front, but never the last. So the writer finds the
//     last one unchanged when put returns. move must expect that part of its tail was
//     dropped meanwhile.
//   - Segments follow each other without gaps. A journal's start and end only grow. A
//     byte that read copied without the lock is right if start is not after it;
//     otherwise its slot may hold something else.
//   - The sizes of the segments, and of one that move is filling, add up to takes. The
//     accounts have counted them.
//   - Bytes that a reader or a seat has not reached yet stay, unless the disk fails.
//     [Stream.needs] says how much stays behind them.
//   - While waiting is set, whoever moves a reader on, or ends a reader or a seat before its
//     time, puts a token into room. So the writer sleeps without the lock and misses
//     nothing. It wakes by itself when the time of a seat or of a stalled reader is over.
//   - After [Output.Seal] no writer adds anything. Only then the last segments may go,
//     by dropUnread or [Output.Forget].
type Output struct {
	lim    *Limits
	budget *Budget

	mu      sync.Mutex
	streams [2]*Stream
	readers map[*Reader]struct{}
	seats   []seat
	// finished says that Finish was called, which closes done.
	finished bool
	done     chan struct{}
	// takes is how many bytes the journals take, by medium, and births counts their
	// segments.
	takes  [2]int
	births int64
	// counted says that the budget knows of the output.
	counted bool
	// forgotten says that the journals go when nobody reads them any more.
	forgotten bool
}

// unlocked runs f, which may wait, without the lock.
func (o *Output) unlocked(f func()) {
	o.mu.Unlock()
	defer o.mu.Lock()
	f()
}

// NewOutput returns an empty output that expects its first reader. observe, if not nil,
// gets all bytes of the first stream, in order and with their offset. It is called with
// the lock, and so must not wait.
func (b *Budget) NewOutput(observe func(offset int64, b []byte)) *Output {
	o := &Output{lim: b.lim, budget: b, readers: map[*Reader]struct{}{}, done: make(chan struct{})}
	for i := range o.streams {
		o.streams[i] = &Stream{out: o, index: i, room: make(chan struct{}, 1)}
	}
	o.streams[0].observe = observe
	o.seats = []seat{{first: true, until: time.Now().Add(b.lim.AttachGrace)}}
	return o
}

// Stream returns a stream: 0 is standard output, 1 standard error.
func (o *Output) Stream(i int) *Stream { return o.streams[i] }

// Seal says that nothing more will be added. From now on these journals are the first to
// lose bytes if others need room.
func (o *Output) Seal() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.counted {
		o.budget.seal(o, [2]bool{o.takes[inMemory] > 0, o.takes[onDisk] > 0})
	}
}

// Finish lets all readers reach the end, and closes Done under the same lock. Otherwise
// one reader could learn of the end, and the next one still find the process running.
func (o *Output) Finish() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.finished = true
	close(o.done)
	o.wakeReaders()
}

// Done is closed by Finish.
func (o *Output) Done() <-chan struct{} { return o.done }

// State is what an output holds, by stream, and how many read it.
type State struct {
	// Written is the number of bytes written so far. The last Kept of them are kept.
	Written, Kept [2]int64
	// Waiting says that the writer of a stream waits for room.
	Waiting [2]bool
	// Readers is how many readers are attached, Expected how many seats there are.
	Readers, Expected int
}

// State returns the state at this moment.
func (o *Output) State() State {
	o.mu.Lock()
	defer o.mu.Unlock()
	st := State{Readers: len(o.readers), Expected: len(o.seats)}
	for i, s := range o.streams {
		st.Written[i], st.Kept[i], st.Waiting[i] = s.journal.end, int64(s.journal.held()), s.waiting
	}
	return st
}

func (o *Output) wakeReaders() {
	for r := range o.readers {
		wake(r.news)
	}
}

func (o *Output) wakeWriters() {
	for _, s := range o.streams {
		if s.waiting {
			wake(s.room)
		}
	}
}

// wake leaves a token for the goroutine that waits on c, now or next.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
