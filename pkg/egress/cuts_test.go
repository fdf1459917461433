//go:build !race

package egress

import (
	"slices"
	"testing"
)

// A download through which cuts are tried is large in one of the tests below, for each of its ways,
// and smaller in the others.
const (
	largeSize   = 256 << 20
	smallerSize = 16 << 20
)

// A download has all its bytes, or curl fails, whatever is cut and when.
func TestCutsDuringADownload(t *testing.T) {
	q := newQuarry(t, largeSize)
	q.farEnd(t, 1) // that of generation 0 is there for one command, and what names it goes with a cut
	for _, d := range q.turn(0) {
		t.Run(d.name, func(t *testing.T) {
			q.atHalf(q.cut)
			if err := q.failsOrIsWhole(t, d); err == nil {
				t.Error("curl did not see the cut")
			}
			d.size = smallerSize
			if all, err := q.fetch(t, d); err != nil || !all {
				t.Errorf("the next one: %v, all bytes: %v", err, all)
			}
		})
	}
}

// Whoever began to carry a connection goes on, and new ones come to the newest far end.
func TestFarEndsHandOverDuringADownload(t *testing.T) {
	q := newQuarry(t, largeSize)
	q.farEnd(t, 1)
	for i, d := range q.turn(1) {
		generation := uint64(i + 2)
		q.atHalf(func() { q.farEnd(t, generation) })
		if all, err := q.fetch(t, d); err != nil || !all {
			t.Errorf("%s: %v, all bytes: %v", d.name, err, all)
		}
	}
}

// TestFarEndIsKilledDuringADownload kills the program that carries it.
func TestFarEndIsKilledDuringADownload(t *testing.T) {
	q := newQuarry(t, largeSize)
	for _, d := range q.turn(2) {
		kill := q.startFarEnd(t)
		q.atHalf(kill)
		if err := q.failsOrIsWhole(t, d); err == nil {
			t.Errorf("%s: curl did not see that the far end was killed", d.name)
		}
	}
	q.farEnd(t, 1)
	if all, err := q.fetch(t, q.ways[0]); err != nil || !all {
		t.Errorf("by the next far end: %v, all bytes: %v", err, all)
	}
}

// turn returns the ways, a third of which are of the quarry's size: others at each of three turns.
func (q *quarry) turn(n int) []download {
	all := slices.Clone(q.ways)
	for i := range all {
		if body, by := i/4, i%4; (body+by)%3 != n {
			all[i].size = smallerSize
		}
	}
	return all
}
