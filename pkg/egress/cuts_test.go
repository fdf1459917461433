//go:build !race

package egress

import (
	"os"
	"testing"
)

// downloadSize is that of a download that is cut.
func downloadSize() int {
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		return 256 << 20
	}
	return 16 << 20
}

// A download has all its bytes, or curl fails, whatever is cut and when.
func TestCutsDuringADownload(t *testing.T) {
	q := newQuarry(t, downloadSize())
	q.farEnd(t, 0)
	for _, d := range q.ways {
		t.Run(d.name, func(t *testing.T) {
			if all, err := q.fetch(t, d); err != nil || !all {
				t.Fatalf("without a cut: %v, all bytes: %v", err, all)
			}
			q.atHalf(q.cut)
			if err := q.failsOrIsWhole(t, d); err == nil {
				t.Error("curl did not see the cut")
			}
		})
	}
}

// Whoever began to carry a connection goes on, and new ones come to the newest far end.
func TestFarEndsHandOverDuringADownload(t *testing.T) {
	q := newQuarry(t, downloadSize())
	q.farEnd(t, 1)
	for i, d := range q.ways {
		generation := uint64(i + 2)
		q.atHalf(func() { q.farEnd(t, generation) })
		if all, err := q.fetch(t, d); err != nil || !all {
			t.Errorf("%s: %v, all bytes: %v", d.name, err, all)
		}
	}
}

// TestFarEndIsKilledDuringADownload kills the program that carries it.
func TestFarEndIsKilledDuringADownload(t *testing.T) {
	q := newQuarry(t, downloadSize())
	for _, d := range q.ways {
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
