package proc

import (
	"container/list"
	"maps"
	"slices"
	"sync"
	"time"
)

// account counts what journals take together of memory, or of the disk.
type account struct {
	*bounds

	mu   sync.Mutex
	used int
}

// take asks for n bytes to grow by.
func (a *account) take(n int) bool { return a.takeBelow(n, a.growth()) }

// takeBelow asks for n bytes, if no more than limit are used then.
func (a *account) takeBelow(n, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used+n > limit {
		return false
	}
	a.used += n
	return true
}

// force takes n bytes in any case. They are those of a journal's minimum.
func (a *account) force(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used += n
}

func (a *account) give(n int) { a.force(-n) }

// short is how much must be given back before n bytes can be taken.
func (a *account) short(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used + n - a.growth()
}

// budget bounds the room of all journals of a manager together. Its methods
// may be called with the lock of an output held, but for reclaim, which locks
// outputs.
type budget struct {
	store *store
	// accounts are those of memory and of the disk, by medium.
	accounts [2]*account

	mu sync.Mutex
	// running are the outputs of processes that run.
	running map[*output]struct{}
	// ended are those of ended processes, by the room that they take.
	ended [2]line

	// reclaiming is held by the one who reclaims.
	reclaiming sync.Mutex
	// again is when it is worth to look once more.
	again map[want]time.Time
}

// want is what is reclaimed: which room, and whether for a journal with a
// reader.
type want struct {
	medium   medium
	attended bool
}

func newBudget(lim *limits, store *store) *budget {
	return &budget{
		store:    store,
		accounts: [2]*account{{bounds: &lim.memory}, store.room},
		running:  map[*output]struct{}{},
		ended:    [2]line{newLine(), newLine()},
		again:    map[want]time.Time{},
	}
}

// begin counts an output among those of processes that run.
func (b *budget) begin(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[o] = struct{}{}
}

// end counts an output among those of ended processes, by the room that it
// takes.
func (b *budget) end(o *output, takes [2]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, o)
	for m := range b.ended {
		if takes[m] {
			b.ended[m].push(o)
		}
	}
}

// remove forgets an output of an ended process, which takes no room any more.
func (b *budget) remove(o *output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for m := range b.ended {
		b.ended[m].remove(o)
	}
}

func (b *budget) endedNow(m medium) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[m].Len()
}

func (b *budget) nextEnded(m medium) *output {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ended[m].next()
}

func (b *budget) runningNow() []*output {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.running))
}

// short is how much room must be given up before n bytes can be taken. What
// the store only has to trim is given up already.
func (b *budget) short(m medium, n int) int {
	short := b.accounts[m].short(n)
	if m == onDisk {
		short -= b.store.spare()
	}
	return short
}

// reclaim makes room for n bytes, if it can: the journals of ended processes
// that nobody reads go, the oldest first. For a journal with a reader, which
// must not lose anything, those without give up their oldest bytes too, and
// those whose readers took everything what they keep behind them.
func (b *budget) reclaim(w want, n int) {
	b.reclaiming.Lock()
	defer b.reclaiming.Unlock()
	now := time.Now()
	if now.Before(b.again[w]) {
		return
	}
	b.dropEnded(w.medium, n, now)
	if w.attended {
		b.shrinkRunning(w.medium, n, now, (*output).unattended)
		b.shrinkRunning(w.medium, n, now, (*output).caughtUp)
	}
	if b.short(w.medium, n) > 0 {
		b.again[w] = now.Add(reclaimPause)
	}
	if w.medium == onDisk && b.accounts[onDisk].short(n) > 0 {
		b.store.trim()
	}
}

func (b *budget) dropEnded(m medium, n int, now time.Time) {
	for tries := b.endedNow(m); tries > 0 && b.short(m, n) > 0; tries-- {
		if o := b.nextEnded(m); o != nil {
			o.drop(now)
		}
	}
}

func (b *budget) shrinkRunning(m medium, n int, now time.Time, may func(*output) bool) {
	for _, o := range b.runningNow() {
		short := b.short(m, n)
		if short <= 0 {
			return
		}
		o.shrink(now, m, short, may)
	}
}

// line is outputs in the order in which their processes ended.
type line struct {
	*list.List
	places map[*output]*list.Element
}

func newLine() line { return line{list.New(), map[*output]*list.Element{}} }

func (l line) push(o *output) { l.places[o] = l.PushBack(o) }

func (l line) remove(o *output) {
	if place := l.places[o]; place != nil {
		l.Remove(place)
		delete(l.places, o)
	}
}

// next returns the first, nil if there is none, and sends it to the back: if
// it stays it is read, and no candidate before the others.
func (l line) next() *output {
	first := l.Front()
	if first == nil {
		return nil
	}
	l.MoveToBack(first)
	return first.Value.(*output)
}
