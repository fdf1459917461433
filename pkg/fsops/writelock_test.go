//go:build unix

package fsops

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

func TestLocksExcludeAndAreForgotten(t *testing.T) {
	var locks pathLocks
	counts := make([]int, 4)
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			unlock, err := locks.lock(context.Background(), fmt.Sprint(i%len(counts)))
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			counts[i%len(counts)]++
		})
	}
	all.Wait()
	for i, n := range counts {
		if n != 100 {
			t.Errorf("path %d was counted %d times", i, n)
		}
	}
	if len(locks.held) != 0 {
		t.Errorf("%d locks are left", len(locks.held))
	}
}

func TestWaitingForALockEndsWithItsContext(t *testing.T) {
	var locks pathLocks
	unlock, err := locks.lock(t.Context(), "a")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := locks.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	other, err := locks.lock(t.Context(), "b")
	must(t, err)
	other()
	unlock()
	if len(locks.held) != 0 {
		t.Errorf("%d locks are left", len(locks.held))
	}
}
