package proc

import (
	"sync"
	"time"
)

// budget bounds the memory of all journals of a manager together. It is asked
// with the lock of an output held, and takes none itself; only reclaim locks
// outputs.
type budget struct {
	lim *limits
	// journals returns the outputs of the ended processes, the one that ended
	// first at the front, and those of all.
	journals func() (ended, all []*output)

	mu   sync.Mutex
	used int

	// reclaiming is held by the one who reclaims.
	reclaiming sync.Mutex
	// again is when it is worth to look once more, by whether all journals are
	// looked at or only those of ended processes.
	again map[bool]time.Time
}

// take asks for n bytes to grow by.
func (b *budget) take(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.lim.growth() {
		return false
	}
	b.used += n
	return true
}

// force takes n bytes in any case. They are those of a journal's minimum.
func (b *budget) force(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
}

func (b *budget) give(n int) { b.force(-n) }

// short is how much must be given back before n bytes can be taken.
func (b *budget) short(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used + n - b.lim.growth()
}

// reclaim makes room for n bytes, if it can: the journals of ended processes
// that nobody reads go, the oldest first. For a journal with a reader, which
// must not lose anything, those without give up their oldest bytes too, and
// those whose readers took everything what they keep behind them.
func (b *budget) reclaim(n int, attended bool) {
	b.reclaiming.Lock()
	defer b.reclaiming.Unlock()
	now := time.Now()
	if now.Before(b.again[attended]) {
		return
	}
	ended, all := b.journals()
	b.each(ended, n, func(o *output, _ int) { o.drop(now) })
	if attended {
		b.each(all, n, func(o *output, short int) { o.shrink(now, short, (*output).unattended) })
		b.each(all, n, func(o *output, short int) { o.shrink(now, short, (*output).caughtUp) })
	}
	if b.short(n) > 0 {
		b.again[attended] = now.Add(reclaimPause)
	}
}

// each has outputs give up memory while n bytes can't be taken.
func (b *budget) each(outputs []*output, n int, giveUp func(o *output, short int)) {
	for _, o := range outputs {
		short := b.short(n)
		if short <= 0 {
			return
		}
		giveUp(o, short)
	}
}
