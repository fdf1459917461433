package egress

import (
	"math/rand/v2"
	"testing"
)

// Cuts come anywhere: within a frame, before the first byte, and after the last one.
func TestCutsAtRandomDuringADownload(t *testing.T) {
	q := newQuarry(t, 1<<20)
	q.farEnd(t, 0)
	failed := 0
	for range 3 {
		for _, d := range q.ways {
			q.cutAfter(1 + rand.Int64N(1<<20+1<<18))
			if q.failsOrIsWhole(t, d) != nil {
				failed++
			}
			q.cutAfter(0)
		}
	}
	t.Logf("%d of %d downloads failed", failed, 3*len(q.ways))
}
