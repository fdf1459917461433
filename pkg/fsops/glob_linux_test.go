package fsops

import (
	"errors"
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
	var got []string
	var errs []error
	after := 0 // matches after the error
	for m, err := range f.Glob(t.Context(), "*/x", GlobOptions{Sort: GlobByName}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, m.Path)
		after += len(errs)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a/x", "c/x"}) || len(errs) != 1 || after == 0 {
		t.Fatalf("found %q, of them %d after the errors %v", got, after, errs)
	}
	wantPathError(t, errs[0], "glob", "b", fs.ErrPermission)
	var skipped *SkippedError
	if !errors.As(errs[0], &skipped) {
		t.Errorf("error is a %T, want a *SkippedError", errs[0])
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
	skipped := 0
	for m, err := range f.Glob(t.Context(), "*/", GlobOptions{Sort: GlobByName}) {
		var skip *SkippedError
		switch {
		case errors.As(err, &skip):
			wantPathError(t, err, "glob", "b", fs.ErrPermission)
			skipped++
		case err != nil:
			t.Fatal(err)
		default:
			got = append(got, m.Path)
		}
	}
	if !slices.Equal(got, []string{"a", "closed", "d"}) || skipped != 1 {
		t.Errorf("found %q, skipped %d", got, skipped)
	}
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
		found, skipped := 0, 0
		for _, err := range f.Glob(t.Context(), pattern, GlobOptions{}) {
			switch {
			case errors.As(err, new(*SkippedError)):
				skipped++
			case err != nil:
				t.Fatal(err)
			default:
				found++
			}
		}
		want := map[string]int{"*/x/c.go": 1, "**/x/c.go": 4}[pattern] // the directories that it can match
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
