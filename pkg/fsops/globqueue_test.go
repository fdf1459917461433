package fsops

import (
	"strconv"
	"testing"
	"time"
)

// The taker gets everything that was found while it was busy, whatever the worker
// that found it does next.
func TestGlobQueueHoldsNothingBack(t *testing.T) {
	const most = 2 * globGather
	for n := range most {
		q, got := newGlobQueue(2), make(chan string, most)
		ended := make(chan error)
		go func() {
			ended <- q.takeAll(func(batch globBatch) {
				for _, item := range batch.items {
					got <- item.path
				}
			})
		}()
		for i := range n {
			if err := q.put(i%2, globItem{path: strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]bool{}
		for range n { // the walk may go on without another match
			select {
			case path := <-got:
				seen[path] = true
			case <-time.After(hung):
				t.Fatalf("%d of %d matches came", len(seen), n)
			}
		}
		q.close(nil)
		if err := <-ended; err != nil || len(seen) != n || len(got) > 0 {
			t.Fatalf("%d of %d matches came, and %d more: %v", len(seen), n, len(got), err)
		}
	}
}
