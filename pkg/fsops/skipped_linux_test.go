package fsops

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"testing"
)

// errorAtTheEnd returns the number of results and the error after them, which must
// be the last value.
func errorAtTheEnd[T any](t *testing.T, results iter.Seq2[T, error]) (n int, last error) {
	t.Helper()
	for _, err := range results {
		if last != nil {
			t.Fatalf("the loop continues after the error %v", last)
		}
		if last = err; err == nil {
			n++
		}
	}
	return n, last
}

// Callers can get all results, or end at the first error, without distinguishing
// errors.
func TestWhatCannotBeReadIsOneErrorAtTheEnd(t *testing.T) {
	const closed = 2*MaxSkipped + 50
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a/x", "z/x")
		for i := range closed {
			makeTree(t, f, fmt.Sprintf("m%03d/x", i))
			must(t, os.Chmod(at(f, fmt.Sprintf("m%03d", i)), 0o700))
		}
	})
	if f == nil {
		return
	}
	check := func(what, op string, results, want int, err error) {
		t.Helper()
		e, ok := errors.AsType[*SkippedError](err)
		if !ok || results != want {
			t.Fatalf("%s: %d results, then %v; want %d, and a *SkippedError", what, results, err, want)
		}
		if e.Total() != closed || len(e.Errs) != MaxSkipped {
			t.Errorf("%s: %d errors of %d, want %d of %d", what, len(e.Errs), e.Total(), MaxSkipped, closed)
		}
		for _, err := range e.Errs {
			of, ok := err.(*fs.PathError)
			if !ok || of.Op != op || len(of.Path) != len("m000") || !errors.Is(err, fs.ErrPermission) {
				t.Fatalf("%s: skipped for %v", what, err)
			}
		}
	}
	for _, sorted := range []bool{false, true} {
		var stats GrepStats
		n, err := errorAtTheEnd(t, f.Grep(t.Context(), "x", GrepOptions{Sort: sorted, Stats: &stats}))
		check("grep", "grep", n, 2, err)
		if stats != (GrepStats{Files: 2, Matches: 2}) {
			t.Errorf("grep: %+v", stats)
		}
		order := map[bool]GlobSort{true: GlobByName}[sorted]
		n, err = errorAtTheEnd(t, f.Glob(t.Context(), "*/x", GlobOptions{Sort: order}))
		check("glob", "glob", n, 2, err)
	}
	n, err := errorAtTheEnd(t, f.List(t.Context(), ".", ListOptions{Recursive: true}))
	check("list", "readdir", n, 4+closed, err)
}
