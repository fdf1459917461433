//go:build unix

package fsops

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// waitFor waits until this many requests are in the budget's queue.
func waitFor(t *testing.T, b *budget, queued int) {
	t.Helper()
	for t.Context().Err() == nil {
		b.mu.Lock()
		n := len(b.queue)
		b.mu.Unlock()
		if n == queued {
			return
		}
		runtime.Gosched()
	}
}

func mustTake(t *testing.T, b *budget, n int64) (give func()) {
	t.Helper()
	give, err := b.take(t.Context(), n)
	must(t, err)
	return give
}

func TestBudgetServesInTheOrderOfArrival(t *testing.T) {
	b := newBudget(10)
	give := mustTake(t, b, 6)
	var order []int64
	var calls sync.WaitGroup
	var mu sync.Mutex
	for i, n := range []int64{7, 3, 99} {
		calls.Go(func() {
			give, err := b.take(t.Context(), n)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, n)
			mu.Unlock()
			give()
		})
		waitFor(t, b, i+1)
	}
	impatient, cancel := context.WithCancel(t.Context())
	calls.Go(func() {
		if _, err := b.take(impatient, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	})
	waitFor(t, b, 4)
	cancel()
	waitFor(t, b, 3)
	give()
	calls.Wait()
	if len(order) != 3 || order[2] != 99 || b.taken != 0 {
		t.Errorf("served in the order %v, %d are still taken", order, b.taken)
	}
}

func TestEditWaitsForMemory(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "text")
	give := mustTake(t, f.edits, maxEditMemory)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := f.Edit(ctx, "file", []Edit{edit("text", "new")}, EditOptions{})
		ended <- err
	}()
	waitFor(t, f.edits, 1)
	cancel()
	wantPathError(t, <-ended, "edit", "file", context.Canceled)
	wantContent(t, f, "file", "text")
	give()
	_, err := f.Edit(t.Context(), "file", []Edit{edit("text", "new")}, EditOptions{})
	must(t, err)
	if f.edits.taken != 0 {
		t.Errorf("%d bytes are still taken", f.edits.taken)
	}
}

func TestEditedSize(t *testing.T) {
	for _, test := range []struct {
		size  int64
		edits []Edit
		want  int64
	}{
		{100, []Edit{edit("abc", "d")}, 100},
		{100, []Edit{edit("a", "bcd")}, 102},
		{100, []Edit{{Old: []byte("ab"), New: []byte("abc"), All: true}}, 150},
		{100, []Edit{edit("a", "bcd"), edit("a", "bcd")}, 104},
		{MaxEditSize + 1, []Edit{edit("abc", "d")}, MaxEditSize},
		{1 << 60, []Edit{{Old: []byte("a"), New: make([]byte, 1<<20), All: true}}, MaxEditSize},
	} {
		if got := editedSize(test.size, test.edits); got != test.want {
			t.Errorf("%d bytes and %d edits: %d, want %d", test.size, len(test.edits), got, test.want)
		}
	}
}

func TestGrepWaitsForMemoryForLongLinesOnly(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "long", strings.Repeat("x", 2*maxGrepKeep)+"needle\n")
	put(t, f, "short", strings.Repeat("x\n", maxGrepKeep)+"needle\n")
	give := mustTake(t, f.longLines, maxGrepMemory)
	if got := matchesIn(t, f, "short"); got != 1 {
		t.Errorf("%d matches in short lines", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- lastError(f.Grep(ctx, "needle", GrepOptions{Paths: []string{"long"}})) }()
	waitFor(t, f.longLines, 1)
	cancel()
	wantPathError(t, <-ended, "grep", "needle", context.Canceled)
	give()
	if got := matchesIn(t, f, "long"); got != 1 {
		t.Errorf("%d matches in long lines", got)
	}
}

// A later file needs the only large buffer before an earlier one does, and has more
// matches than it may hold back: the two must not wait for each other.
func TestGrepsOfLongLinesDoNotBlockEachOther(t *testing.T) {
	f := newTestFS(t)
	f.longLines = newBudget(maxGrepSearchLine)
	long := strings.Repeat("x", 2*maxGrepKeep) + "\n"
	matches := strings.Repeat("needle\n", 4*grepBatch)
	put(t, f, "a", strings.Repeat("x\n", 4*maxGrepKeep)+long+matches)
	for i := range 3 {
		put(t, f, fmt.Sprint("b", i), long+matches)
	}
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if got := matchesIn(t, f, "."); got != 4*4*grepBatch {
				t.Errorf("%d matches", got)
			}
		})
	}
	calls.Wait()
	if f.longLines.taken != 0 {
		t.Errorf("%d bytes are still taken", f.longLines.taken)
	}
}

// matchesIn searches twice, sorted and unsorted, and returns how many matches each
// search found.
func matchesIn(t *testing.T, f *FS, path string) int {
	found := map[bool]int{}
	for _, sorted := range []bool{true, false} {
		for r, err := range f.Grep(t.Context(), "needle", GrepOptions{Paths: []string{path}, Sort: sorted}) {
			if err != nil {
				t.Error(err)
			}
			if r.Kind == GrepMatch {
				found[sorted]++
			}
		}
	}
	if found[true] != found[false] {
		t.Errorf("%d matches in a sorted search, %d in an unsorted one", found[true], found[false])
	}
	return found[true]
}
