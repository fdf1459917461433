package proc

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"time"

	"github.com/google/uuid"
)

// tombstones remember the exec ids whose processes were forgotten, so that a
// late repeat of their start is refused and never runs twice. An id needs to
// be remembered only until it is refused for its age.
//
// They lie in graves by the time of the id. When there are too many, the oldest graves
// go, and all ids of their time are refused from then on. Graves stay if their ids are
// so fresh that they may still arrive for the first time.
type tombstones struct {
	// limit is how many are remembered unless they are fresh, most how many in any
	// case.
	limit, most int
	// age is how old an id may be at its start, fresh how old it may be at its first
	// arrival.
	age, fresh time.Duration

	seed   maphash.Seed
	graves map[grave]map[uint64]struct{}
	count  int
	// floor is the last grave that went: ids up to its time are refused.
	floor grave
}

// grave is a span of time in which ids were made, in numbers of graveSpan.
type grave int64

func graveOf(made time.Time) grave { return grave(made.UnixMilli() / graveSpan.Milliseconds()) }

func (g grave) end() time.Time { return time.UnixMilli(int64(g+1) * graveSpan.Milliseconds()) }

// idTime is the time at which a UUIDv7 was made (RFC 9562, section 5.7).
func idTime(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// refuses reports whether a process with this id may have been forgotten.
func (t *tombstones) refuses(id uuid.UUID, now time.Time) bool {
	made := idTime(id)
	if made.Before(now.Add(-t.age)) || graveOf(made) <= t.floor {
		return true
	}
	g := t.graves[graveOf(made)]
	if g == nil {
		return false
	}
	_, buried := g[t.hash(id)]
	return buried
}

// hash stands for an id. With 64 bits, two ids of a grave never have the same one.
func (t *tombstones) hash(id uuid.UUID) uint64 { return maphash.Comparable(t.seed, id) }

// bury remembers the id of a process that is being forgotten.
func (t *tombstones) bury(id uuid.UUID, now time.Time) {
	if t.graves == nil {
		t.graves, t.seed = map[grave]map[uint64]struct{}{}, maphash.MakeSeed()
	}
	made := idTime(id)
	if made.Before(now.Add(-t.age)) || graveOf(made) <= t.floor {
		return
	}
	g := t.graves[graveOf(made)]
	if g == nil {
		g = map[uint64]struct{}{}
		t.graves[graveOf(made)] = g
		t.clean(now)
	}
	had := len(g)
	g[t.hash(id)] = struct{}{}
	t.count += len(g) - had
	if t.count > t.most {
		t.clean(now)
	}
}

// clean removes the graves that are not needed any more, and then the oldest ones while
// there are too many.
func (t *tombstones) clean(now time.Time) {
	for g := range t.graves {
		if g.end().Before(now.Add(-t.age)) {
			t.remove(g)
		}
	}
	for t.count > t.limit {
		first, last := t.ends()
		switch {
		case first.end().Before(now.Add(-t.fresh)):
			t.floor = max(t.floor, first)
			t.remove(first)
		case t.count <= t.most:
			return
		case last.end().After(now.Add(t.fresh)):
			// An id from a clock that is ahead must not lock out the others.
			t.remove(last)
		default:
			t.floor = max(t.floor, first)
			t.remove(first)
		}
	}
}

// ends are the oldest and the newest grave.
func (t *tombstones) ends() (first, last grave) {
	first, last = math.MaxInt64, math.MinInt64
	for g := range t.graves {
		first, last = min(first, g), max(last, g)
	}
	return first, last
}

func (t *tombstones) remove(g grave) {
	t.count -= len(t.graves[g])
	delete(t.graves, g)
}
