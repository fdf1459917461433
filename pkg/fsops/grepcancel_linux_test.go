package fsops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// wantNothingLeft checks that a search leaves no goroutine and no descriptor
// behind. Goroutines need a moment to end.
func wantNothingLeft(t *testing.T, search func()) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	search()
	for begun := time.Now(); runtime.NumGoroutine() > goroutines && time.Since(begun) < hung; {
		time.Sleep(time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before the search", n, goroutines)
	}
	if n := openFiles(t); n > files {
		t.Errorf("%d open files, %d before the search", n, files)
	}
}

// manyMatches makes a tree of small and large files.
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

// linkOften makes a directory with this many names of one file.
func linkOften(t *testing.T, f *FS, file, dir string, names int) {
	t.Helper()
	must(t, os.Mkdir(at(f, dir), 0o700))
	for i := range names {
		must(t, os.Link(at(f, file), at(f, fmt.Sprint(dir, "/", i))))
	}
}

// cancelOnceOpened cancels as soon as this process has a file at or below a path
// open, that is, when the search is under way.
func cancelOnceOpened(t *testing.T, path string, cancel context.CancelFunc) {
	t.Helper()
	var watching sync.WaitGroup
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		watching.Wait()
	})
	watching.Go(func() {
		defer cancel()
		for !hasOpen(path) {
			select {
			case <-ended:
				return
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// hasOpen reports whether this process has a file at or below a path open.
func hasOpen(path string) bool {
	links, _ := filepath.Glob("/proc/self/fd/*")
	return slices.ContainsFunc(links, func(link string) bool {
		target, _ := os.Readlink(link)
		return strings.HasPrefix(target, path)
	})
}

// endOf reads the results of a search that is cancelled meanwhile, and returns its
// last error. It fails the test if the search does not end.
func endOf[T any](t *testing.T, results iter.Seq2[T, error]) error {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- lastError(results) }()
	select {
	case err := <-ended:
		return err
	case <-time.After(hung):
		t.Fatal("the search did not end with its context")
		return nil
	}
}

// cancelled runs a long search, cancels it as soon as it has opened a file, and
// checks that it ends. The search must not end by itself.
func cancelled(t *testing.T, f *FS, pattern string, opts GrepOptions) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancelOnceOpened(t, f.Workdir(), cancel)
	err := endOf(t, f.Grep(ctx, pattern, opts))
	wantPathError(t, err, "grep", pattern, context.Canceled)
}

// TestGrepIsCancelledInHugeFiles searches 1.7 TB, through many names of one file.
// At gigabytes a second that would take minutes.
func TestGrepIsCancelledInHugeFiles(t *testing.T) {
	f := newTestFS(t)
	must(t, os.WriteFile(at(f, "lines"), []byte(strings.Repeat("some words in a line\n", 4<<20)), 0o600))
	linkOften(t, f, "lines", "often", 20_000)
	for _, pattern := range []string{"absent", "(?i)absent", `(\w+ ){9}`} {
		for _, sorted := range []bool{false, true} {
			wantNothingLeft(t, func() { cancelled(t, f, pattern, GrepOptions{Sort: sorted}) })
		}
	}
}

func TestGrepOfTheSameFSAtOnce(t *testing.T) {
	f := manyMatches(t)
	_, want := grepped(t, f, "match", GrepOptions{})
	done := make(chan GrepStats)
	for i := range 8 {
		go func() {
			var stats GrepStats
			for range f.Grep(t.Context(), "match", GrepOptions{Sort: i%2 == 0, Stats: &stats}) {
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
