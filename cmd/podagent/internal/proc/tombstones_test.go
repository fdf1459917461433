package proc

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
)

func graveyard(limit, most int) *tombstones {
	return &tombstones{limit: limit, most: most, age: retention - clockSkew, fresh: freshAge}
}

// TestMillionIDsInTwoMinutes lets clients whose clocks differ as much as they may
// start a million processes. Each is soon forgotten.
func TestMillionIDsInTwoMinutes(t *testing.T) {
	const million, late = 1_000_000, time.Second
	skews := []time.Duration{0, -clockSkew, clockSkew}
	now := time.Now()
	g := graveyard(keptTombstones, maxTombstones)
	var buried []uuid.UUID
	most := 0
	for i := range million {
		now = now.Add(2 * time.Minute / million)
		id := uuid.MustParse(idAt(t, now.Add(skews[i%3]-late)))
		if g.refuses(id, now) {
			t.Fatalf("fresh id %d from a clock %v ahead was refused", i, skews[i%3])
		}
		g.bury(id, now)
		most = max(most, g.count)
		if i%1000 < 3 {
			buried = append(buried, id)
		}
	}
	t.Logf("at most %d ids were remembered", most)
	if most > maxTombstones*3/4 {
		t.Errorf("%d ids were remembered", most)
	}
	for i, id := range buried {
		if !g.refuses(id, now) {
			t.Errorf("id %d would run again", i)
		}
	}
}

func TestFewIDsAreRememberedUntilTheyAreTooOld(t *testing.T) {
	g := graveyard(keptTombstones, maxTombstones)
	begun := time.Now()
	at := func(d time.Duration) uuid.UUID { return uuid.MustParse(idAt(t, begun.Add(d))) }
	for d := time.Duration(0); d < retention; d += graveSpan {
		g.bury(at(d), begun.Add(d))
	}
	end := begun.Add(retention)
	if g.refuses(at(retention-time.Hour), end) || g.refuses(at(time.Hour), end) {
		t.Error("an unused id was refused")
	}
	if !g.refuses(at(0), end) {
		t.Error("an id as old as the retention was accepted")
	}
	g.bury(at(3*retention), begun.Add(3*retention))
	if g.count != 1 || len(g.graves) != 1 {
		t.Errorf("%d expired ids are kept", g.count-1)
	}
}

func TestTombstonesOverTheLimitRaiseTheFloor(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) uuid.UUID { return uuid.MustParse(idAt(t, now.Add(d))) }
	g := graveyard(2, 4)
	ids := []uuid.UUID{at(-30 * time.Minute), at(-20 * time.Minute), at(-10 * time.Minute), at(-5 * time.Minute)}
	for _, id := range ids {
		g.bury(id, now)
	}
	for i, id := range ids {
		if !g.refuses(id, now) {
			t.Errorf("id %d would run again", i)
		}
	}
	if g.count > 3 {
		t.Errorf("%d ids are kept", g.count)
	}
	if g.refuses(at(-15*time.Minute), now) || !g.refuses(at(-31*time.Minute), now) {
		t.Error("the floor is in the wrong place")
	}
}

func TestClockThatIsAheadLocksNobodyOut(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) uuid.UUID { return uuid.MustParse(idAt(t, now.Add(d))) }
	g := graveyard(2, 4)
	for i := range 20 {
		g.bury(at(time.Hour+time.Duration(i)*time.Minute), now)
	}
	for range 3 {
		g.bury(at(0), now)
	}
	if g.refuses(at(0), now) || g.refuses(at(-clockSkew), now) {
		t.Error("a new id was refused")
	}
	if g.count > 5 {
		t.Errorf("%d ids are kept", g.count)
	}
}

func TestOldIDsAreRefused(t *testing.T) {
	m := newManager(t)
	spec := argv(t, "true")
	spec.ID = idAt(t, time.Now().Add(-retention))
	if _, _, err := m.Start(t.Context(), spec); !errors.Is(err, ErrTooOld) {
		t.Errorf("got %v", err)
	}
	for _, made := range []time.Duration{-retention / 2, -clockSkew, clockSkew, retention / 2} {
		spec.ID = idAt(t, time.Now().Add(made))
		finish(t, start(t, m, spec))
	}
}
