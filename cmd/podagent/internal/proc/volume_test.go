//go:build !race

package proc

// The race detector takes several times the memory that the test of this file
// bounds, and would find what it finds in the smaller ones.

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"
)

// peaks are the most that journals took while a test ran.
type peaks struct{ heap, disk int64 }

// watchPeaks looks at what journals take until stop, which returns the most.
func watchPeaks(t *testing.T, m *Manager) (stop func() peaks) {
	t.Helper()
	before := liveHeap()
	var most peaks
	var watching sync.WaitGroup
	done := make(chan struct{})
	watching.Go(func() {
		for {
			most.heap = max(most.heap, liveHeap()-before)
			most.disk = max(most.disk, onDiskNow(t, m))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	})
	return func() peaks {
		close(done)
		watching.Wait()
		return most
	}
}

// The output is eight times what a journal keeps: by then each of its segments was
// dropped and taken again, and more of the same shows nothing new. A full test
// writes the ten gigabytes that are promised, which another test has in a pod.
func TestProcessThatNobodyReadsWritesWithinBounds(t *testing.T) {
	size := int64(8 * journalSize)
	if full {
		size = 10 << 30
	}
	m := newDiskManager(t, func(l *limits) { l.attachGrace = 0 })
	stop := watchPeaks(t, m)
	p := start(t, m, shell(t, fmt.Sprintf("head -c %d /dev/zero; printf end >&2", size)))
	st, err := p.Wait(testContext(t))
	most := stop()
	if err != nil || st.Code != 0 || st.Stdout != size {
		t.Fatalf("got %+v, %v", st, err)
	}
	t.Logf("it took %v, at most %d MB of memory and %d MB on disk", st.Wall, most.heap/1e6, most.disk/1e6)
	if most.heap > 8<<20 || most.disk > journalSize+4*slotMax {
		t.Errorf("at most %d bytes of memory were used, and %d on disk", most.heap, most.disk)
	}
	r := finish(t, p)
	if r.omitted != [2]int64{size - int64(r.stdout.Len()), 0} || r.stderr.String() != "end" {
		t.Errorf("omitted %v, got %d bytes and %q", r.omitted, r.stdout.Len(), &r.stderr)
	}
	if n := r.stdout.Len(); n > journalSize || n < journalSize-2*slotMax {
		t.Errorf("%d bytes are kept", n)
	}
	if len(bytes.Trim(r.stdout.Bytes(), "\x00")) > 0 {
		t.Error("the bytes are not those of the output")
	}
}
