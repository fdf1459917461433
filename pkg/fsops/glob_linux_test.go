package fsops

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"testing"
)

func TestGlobUnreadableDirectoryDoesNotEndTheSearch(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a/x", "b/x", "c/x")
		must(t, os.Chmod(at(f, "b"), 0o700))
	})
	if f == nil {
		return
	}
	for _, order := range []GlobSort{GlobUnsorted, GlobByName} {
		var stats GlobStats
		matches, skipped := collected(t, f.Glob(t.Context(), "*/x", GlobOptions{Sort: order, Stats: &stats}))
		if len(matches) != 2 || len(skipped) != 1 || stats.Matches != 2 {
			t.Fatalf("found %v, skipped %v, stats %+v", matches, skipped, stats)
		}
		wantPathError(t, skipped[0], "glob", "b", fs.ErrPermission)
	}
}

func TestGlobOfDirectoriesGoesOnAfterLinkIntoUnreadableOne(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a/", "b -> closed/x", "closed/x/", "d/")
		must(t, os.Chmod(at(f, "closed"), 0o700))
	})
	if f == nil {
		return
	}
	var got []string
	matches, skipped := collected(t, f.Glob(t.Context(), "*/", GlobOptions{Sort: GlobByName}))
	for _, m := range matches {
		got = append(got, m.Path)
	}
	if !slices.Equal(got, []string{"a", "closed", "d"}) || len(skipped) != 1 {
		t.Fatalf("found %q, skipped %v", got, skipped)
	}
	wantPathError(t, skipped[0], "glob", "b", fs.ErrPermission)
}

func TestGlobReadsOnlyDirectoriesThatCanMatch(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a/x/c.go", "a/closed/c.go", "b/closed/c.go", "closed/x/c.go", "a/x/closed/c.go")
		for _, dir := range []string{"closed", "a/closed", "b/closed", "a/x/closed"} {
			must(t, os.Chmod(at(f, dir), 0o700))
		}
	})
	if f == nil {
		return
	}
	for _, pattern := range []string{"a/x*/*.go", "a/{x,y}/c.go", "[a]/x/c.*", "*/x/c.go", "**/x/c.go"} {
		matches, errs := collected(t, f.Glob(t.Context(), pattern, GlobOptions{}))
		found, skipped := len(matches), len(errs)
		want := map[string]int{"*/x/c.go": 1, "**/x/c.go": 4}[pattern] // the directories in which it can match
		if found != 1 || skipped != want {
			t.Errorf("%s: found %d, could not read %d directories, want 1 and %d", pattern, found, skipped, want)
		}
	}
}

func TestGlobLeavesNothingBehindWhenTheLoopEnds(t *testing.T) {
	f := newTestFS(t)
	for i := range 3000 {
		makeTree(t, f, fmt.Sprintf("%d/%d", i%100, i))
	}
	for _, order := range []GlobSort{GlobUnsorted, GlobByName} {
		wantNothingLeft(t, func() {
			for range f.Glob(t.Context(), "**", GlobOptions{Sort: order}) {
				break
			}
		})
	}
}
