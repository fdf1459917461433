package journal

import (
	"container/list"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// account counts the bytes that all journals take in memory, or on disk.
type account struct {
	*Bounds

	mu   sync.Mutex
	used int
}

// charge asks for n bytes for a journal to grow.
func (a *account) charge(n int) bool { return a.chargeBelow(n, a.growth()) }

// chargeBelow asks for n bytes. It fails if more than limit would then be used.
func (a *account) chargeBelow(n, limit int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used+n > limit {
		return false
	}
	a.used += n
	return true
}

// chargeAnyway counts n bytes in any case. They are those of a journal's minimum.
func (a *account) chargeAnyway(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used += n
}

func (a *account) refund(n int) { a.chargeAnyway(-n) }

func (a *account) now() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used
}

// short is how much must be refunded before n bytes can be charged.
func (a *account) short(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used + n - a.growth()
}

// Budget bounds the room that the journals of all processes take together, of memory and
// of the disk. Its unexported methods may be called with an output locked, but for
// reclaim, which locks outputs. See [Output].
type Budget struct {
	lim    *Limits
	store  *store
	chunks Chunks
	// accounts are those of memory and of the disk, by medium.
	accounts [2]*account

	mu sync.Mutex
	// running are the outputs that are not sealed.
	running map[*Output]struct{}
	// sealed are the others, by the room that they take.
	sealed [2]line

	// reclaiming is held during a reclaim.
	reclaiming sync.Mutex
	// again is the earliest time of the next reclaim, after one in vain.
	again map[want]time.Time
}

// NewBudget returns a budget that keeps journals in memory. It keeps lim, so that tests
// can change the limits before the first output.
func NewBudget(lim *Limits, log *slog.Logger) *Budget {
	store := newStore(lim, log)
	return &Budget{
		lim:      lim,
		store:    store,
		accounts: [2]*account{{Bounds: &lim.Memory}, store.account},
		running:  map[*Output]struct{}{},
		sealed:   [2]line{newLine(), newLine()},
		again:    map[want]time.Time{},
	}
}

// OpenIn makes the budget keep journals on disk, in a file without a name: in the first of
// dirs that can be used and is not in memory itself. It logs which one, or that there is
// none. It must be called before the first output.
func (b *Budget) OpenIn(dirs []string) { b.store.openIn(dirs) }

// OpenAny is OpenIn for tests: it also takes a directory that is in memory or small.
func (b *Budget) OpenAny(dir string) error {
	file, err := openUnlinked(dir)
	if err == nil {
		b.store.use(file)
	}
	return err
}

// Chunks are the buffers that the journals use, too.
func (b *Budget) Chunks() *Chunks { return &b.chunks }

// Size is how many bytes of the output of a process are kept, of both streams together.
func (b *Budget) Size() int64 { return int64(b.lim.bounds(b.store.medium()).Process) }

// Used is how many bytes the journals take in memory and on disk.
func (b *Budget) Used() (memory, disk int) {
	return b.accounts[inMemory].now(), b.accounts[onDisk].now()
}

// want is what to reclaim: room on which medium, and whether for a journal with a
// reader.
type want struct {
	medium   medium
	attended bool
}

// begin counts an output among those that are not sealed.
func (b *Budget) begin(o *Output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[o] = struct{}{}
}

// seal counts an output among the sealed ones, by the room that it takes.
func (b *Budget) seal(o *Output, takes [2]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.running, o)
	for m := range b.sealed {
		if takes[m] {
			b.sealed[m].push(o)
		}
	}
}

// remove forgets a sealed output, which takes no room any more.
func (b *Budget) remove(o *Output) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for m := range b.sealed {
		b.sealed[m].remove(o)
	}
}

func (b *Budget) sealedNow(m medium) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sealed[m].Len()
}

func (b *Budget) nextSealed(m medium) *Output {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sealed[m].rotate()
}

func (b *Budget) runningNow() []*Output {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Keys(b.running))
}

// short is how many bytes must be given up to make room for n. It leaves out the bytes that
// the store has freed and only has to trim.
func (b *Budget) short(m medium, n int) int {
	short := b.accounts[m].short(n)
	if m == onDisk {
		short -= b.store.spare()
	}
	return short
}

// reclaim makes room for n bytes, if it can. It drops the sealed journals that nobody
// reads, the oldest first. For a journal with a reader, which must not lose anything, the
// running journals without a reader give up their oldest bytes. Then those whose readers
// took everything give up the bytes that they keep for replay.
func (b *Budget) reclaim(w want, n int) {
	b.reclaiming.Lock()
	defer b.reclaiming.Unlock()
	now := time.Now()
	if now.Before(b.again[w]) {
		return
	}
	b.dropSealed(w.medium, n, now)
	if w.attended {
		b.shrinkRunning(w.medium, n, now, (*Output).unattended)
		b.shrinkRunning(w.medium, n, now, (*Output).caughtUp)
	}
	if b.short(w.medium, n) > 0 {
		b.again[w] = now.Add(reclaimPause)
	}
	if w.medium == onDisk && b.accounts[onDisk].short(n) > 0 {
		b.store.trim()
	}
}

func (b *Budget) dropSealed(m medium, n int, now time.Time) {
	for tries := b.sealedNow(m); tries > 0 && b.short(m, n) > 0; tries-- {
		if o := b.nextSealed(m); o != nil {
			o.dropUnread(now)
		}
	}
}

func (b *Budget) shrinkRunning(m medium, n int, now time.Time, may func(*Output) bool) {
	for _, o := range b.runningNow() {
		short := b.short(m, n)
		if short <= 0 {
			return
		}
		o.shrink(now, m, short, may)
	}
}

// line is outputs in the order in which they were sealed.
type line struct {
	*list.List
	elements map[*Output]*list.Element
}

func newLine() line { return line{list.New(), map[*Output]*list.Element{}} }

func (l line) push(o *Output) { l.elements[o] = l.PushBack(o) }

func (l line) remove(o *Output) {
	if e := l.elements[o]; e != nil {
		l.Remove(e)
		delete(l.elements, o)
	}
}

// rotate returns the first output, or nil, and sends it to the back. If it is not dropped
// now, somebody reads it, and the others come before it the next time.
func (l line) rotate() *Output {
	first := l.Front()
	if first == nil {
		return nil
	}
	l.MoveToBack(first)
	return first.Value.(*Output)
}
