package fsops

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// wantNothingLeft checks that a search left no goroutine and no descriptor
// behind. Goroutines take a moment to be gone after their last word.
func wantNothingLeft(t *testing.T, search func()) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	search()
	for range 1000 {
		if runtime.NumGoroutine() <= goroutines {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before the search", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before the search", n, files)
	}
}

// manyMatches makes a tree of small files and large ones.
func manyMatches(t *testing.T) *FS {
	f := newTestFS(t)
	for i := range 300 {
		must(t, os.MkdirAll(at(f, fmt.Sprint(i%20)), 0o777))
		put(t, f, fmt.Sprintf("%d/%d", i%20, i), strings.Repeat("match\n", 10+i%10/9*4000))
	}
	return f
}

func TestGrepLeavesNothingBehindWhenTheLoopEnds(t *testing.T) {
	f := manyMatches(t)
	for _, opts := range []GrepOptions{{}, {Sort: true}, {Limit: 5000}, {Limit: 5000, Sort: true}, {Report: GrepFiles}} {
		for _, results := range []int{1, 2, 700, 20_000} {
			wantNothingLeft(t, func() {
				n := 0
				for _, err := range f.Grep(t.Context(), "match", opts) {
					must(t, err)
					if n++; n == results {
						break
					}
				}
			})
		}
	}
}

func TestGrepIsCancelledWhileItsResultsAreTakenSlowly(t *testing.T) {
	f := manyMatches(t)
	for _, sorted := range []bool{false, true} {
		wantNothingLeft(t, func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			n := 0
			var last error
			for _, err := range f.Grep(ctx, "match", GrepOptions{Sort: sorted}) {
				last = err
				if n++; n == 3 {
					cancel()
				}
				time.Sleep(time.Millisecond)
			}
			if !errors.Is(last, context.Canceled) || n != 4 {
				t.Errorf("%d results, the last error is %v; want 3, and that of the context", n, last)
			}
		})
	}
}

// TestGrepIsCancelledInHugeFiles has 85 GB to search, by a thousand names of one
// file: at gigabytes a second that takes minutes, of which it may use none.
func TestGrepIsCancelledInHugeFiles(t *testing.T) {
	f := newTestFS(t)
	must(t, os.WriteFile(at(f, "lines"), []byte(strings.Repeat("some words in a line\n", 4<<20)), 0o600))
	for i := range 1000 {
		must(t, os.Link(at(f, "lines"), at(f, fmt.Sprint("lines", i))))
	}
	for _, pattern := range []string{"absent", "(?i)absent", `(\w+ ){9}`} {
		for _, sorted := range []bool{false, true} {
			wantNothingLeft(t, func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				defer cancel()
				begun := time.Now()
				var last error
				for _, last = range f.Grep(ctx, pattern, GrepOptions{Sort: sorted}) {
				}
				if took := time.Since(begun); !errors.Is(last, context.DeadlineExceeded) || took > hung {
					t.Errorf("%s: the search ended after %v by %v", pattern, took, last)
				}
			})
		}
	}
}

// A stream such as kmsg has its reader wait, for ever if nothing comes.
func TestGrepIsCancelledWhileAFileWaits(t *testing.T) {
	f := newTestFS(t)
	for _, opts := range []GrepOptions{{Paths: []string{"/proc/kmsg"}}, {Paths: []string{"/proc/kmsg"}, Sort: true}} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		ended := make(chan error, 1)
		go func() {
			var last error
			for _, last = range f.Grep(ctx, "absent", opts) {
			}
			ended <- last
		}()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error is %v, want that of the context", err)
			}
		case <-time.After(hung):
			t.Error("the search does not end with its context")
		}
		cancel()
	}
}

func TestGrepOfTheSameFSAtOnce(t *testing.T) {
	f := manyMatches(t)
	_, want := grepped(t, f, "match", GrepOptions{})
	done := make(chan GrepStats)
	for i := range 8 {
		go func() {
			var stats GrepStats
			for r := range f.Grep(t.Context(), "match", GrepOptions{Sort: i%2 == 0}) {
				stats = r.Stats
			}
			done <- stats
		}()
	}
	for range 8 {
		if got := <-done; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
