//go:build !race

package journal

// The race detector takes several times the memory that this file's test allows,
// and finds the same races in the smaller tests.

import (
	"bytes"
	"os"
	"sync"
	"testing"
	"time"
)

// peaks are the maxima of what journals used during a test.
type peaks struct{ heap, disk int64 }

// watchPeaks measures what journals use until stop, which returns the maxima.
func watchPeaks(t *testing.T, b *Budget) (stop func() peaks) {
	t.Helper()
	before := liveHeap()
	var most peaks
	var watching sync.WaitGroup
	done := make(chan struct{})
	watching.Go(func() {
		for {
			most.heap = max(most.heap, liveHeap()-before)
			most.disk = max(most.disk, onDiskNow(t, b))
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

// The output is eight times what a journal keeps, so each segment is dropped and
// reused; more output would show nothing new. A full test writes the ten gigabytes
// that are promised. Another test does so in a pod.
func TestOutputThatNobodyReadsStaysWithinBounds(t *testing.T) {
	size := int64(8 * processSize)
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		size = 10 << 30
	}
	b := newDiskBudget(t)
	o := unread(b)
	stop := watchPeaks(t, b)
	for chunk := make([]byte, ChunkSize); o.Stream(0).Written() < size; {
		write(o.Stream(0), chunk)
	}
	write(o.Stream(1), []byte("end"))
	end(o)
	most := stop()
	t.Logf("it took at most %d MB of memory and %d MB on disk", most.heap/1e6, most.disk/1e6)
	if most.heap > 8<<20 || most.disk > processSize+4*slotMax {
		t.Errorf("at most %d bytes of memory were used, and %d on disk", most.heap, most.disk)
	}
	r := finish(t, o)
	n := r.streams[0].Len()
	if r.omitted != [2]int64{size - int64(n), 0} || r.streams[1].String() != "end" {
		t.Errorf("omitted %v, got %d bytes and %q", r.omitted, n, &r.streams[1])
	}
	if n > processSize || n < processSize-2*slotMax {
		t.Errorf("%d bytes are kept", n)
	}
	if len(bytes.Trim(r.streams[0].Bytes(), "\x00")) > 0 {
		t.Error("the bytes are not those of the output")
	}
}
