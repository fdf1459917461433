package confine

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// Callers come one at a time, when the thread is idle, and all at once, when it is not. It
// runs what each of them gives it, one after the other.
func TestThreadRunsWhatAllGiveIt(t *testing.T) {
	const callers, calls = 16, 500
	thread, err := startThread(boundary{})
	if err != nil {
		t.Fatal(err)
	}
	runs, ids := 0, map[int]bool{} // the thread alone touches them
	call := func() {
		before := 0
		thread.Do(func() { runs++; ids[unix.Gettid()] = true; before = runs })
		if before == 0 {
			t.Error("Do returned before it ran the function")
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range calls {
			call()
		}
		var all sync.WaitGroup
		for range callers {
			all.Go(func() {
				for range calls {
					call()
				}
			})
		}
		all.Wait()
	}()
	select {
	case <-done:
	case <-time.After(hung):
		t.Fatal("a call has not returned")
	}
	if want := (callers + 1) * calls; runs != want || len(ids) != 1 {
		t.Errorf("%d functions ran, on the threads %v, want %d on one", runs, ids, want)
	}
}
