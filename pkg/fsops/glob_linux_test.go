package fsops

import (
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
	for m, err := range f.Glob(t.Context(), "*/x", GlobOptions{}) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		got = append(got, m.Path)
	}
	if slices.Sort(got); !slices.Equal(got, []string{"a/x", "c/x"}) || len(errs) != 1 {
		t.Fatalf("found %q, errors %v", got, errs)
	}
	wantPathError(t, errs[0], "glob", "b", fs.ErrPermission)
}
