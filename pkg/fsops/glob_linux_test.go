package fsops

import (
	"errors"
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
	for m, err := range f.Glob(t.Context(), "*/x", GlobOptions{Sort: true}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, m.Path)
		after += len(errs)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a/x", "c/x"}) || len(errs) != 1 || after != 1 {
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
	for m, err := range f.Glob(t.Context(), "*/", GlobOptions{Sort: true}) {
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
