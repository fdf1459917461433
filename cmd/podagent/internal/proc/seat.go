package proc

import (
	"slices"
	"time"
)

// lease keeps the place of a reader that is expected: the first one after the
// start, or one whose connection dropped.
type lease struct {
	name  string // the reader's
	at    [2]int64
	until time.Time
	first bool
}

// redeem gives a reader the place that it has come back for. The first reader
// ends the lease that was made for it, whoever it is.
func (o *output) redeem(r *reader) {
	o.leases = slices.DeleteFunc(o.leases, func(l lease) bool {
		return l.first || r.name != "" && l.name == r.name
	})
	if r.name == "" {
		o.redeemNearest(r.at)
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

// redeemNearest ends the lease that a reader without a name has most likely
// come back for: the nearest one that is not behind it, and ahead by no more
// than what can have been lost on the way.
func (o *output) redeemNearest(at [2]int64) {
	replay := int64(max(o.lim.disk.replay, o.lim.memory.replay))
	best, bestAhead := -1, int64(0)
	for i, l := range o.leases {
		a, b := l.at[0]-at[0], l.at[1]-at[1]
		if l.name != "" || a < 0 || b < 0 || a > replay || b > replay {
			continue
		}
		if best < 0 || a+b < bestAhead {
			best, bestAhead = i, a+b
		}
	}
	if best >= 0 {
		o.leases = slices.Delete(o.leases, best, best+1)
	}
}

func (o *output) expireLeases(now time.Time) {
	kept := o.leases[:0]
	for _, l := range o.leases {
		if now.Before(l.until) {
			kept = append(kept, l)
		}
	}
	o.leases = kept
}
