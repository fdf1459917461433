package proc

import (
	"encoding/binary"
	"time"

	"github.com/google/uuid"
)

// tombstones remember the exec ids whose processes were forgotten, so that a
// late repeat of their start is refused and never runs twice. An id needs to
// be remembered only until it is refused for its age.
type tombstones struct {
	limit int
	// age is how old an id may be at its start.
	age   time.Duration
	ids   map[uuid.UUID]struct{}
	order []uuid.UUID
	// floor takes over when there are too many: ids up to this time are
	// refused.
	floor time.Time
}

// idTime is the time at which a UUIDv7 was made (RFC 9562, section 5.7).
func idTime(id uuid.UUID) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// refuses reports whether a process with this id may have been forgotten.
func (t *tombstones) refuses(id uuid.UUID, now time.Time) bool {
	if made := idTime(id); made.Before(now.Add(-t.age)) || !made.After(t.floor) {
		return true
	}
	_, buried := t.ids[id]
	return buried
}

// bury remembers the id of a process that is forgotten now.
func (t *tombstones) bury(id uuid.UUID, now time.Time) {
	if t.ids == nil {
		t.ids = map[uuid.UUID]struct{}{}
	}
	if _, buried := t.ids[id]; !buried {
		t.ids[id] = struct{}{}
		t.order = append(t.order, id)
	}
	for len(t.order) > 0 {
		oldest := t.order[0]
		made := idTime(oldest)
		expired := made.Before(now.Add(-t.age))
		if !expired && len(t.order) <= t.limit {
			return
		}
		if !expired && made.After(t.floor) {
			// An id from a clock that is ahead must not lock out the others.
			t.floor = earlier(made, now)
		}
		delete(t.ids, oldest)
		t.order = t.order[1:]
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
