//go:build unix

package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStatFollowsLinksAndLstatDoesNot(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "12345")
	must(t, f.Symlink("file", "link"))

	got, err := f.Stat("link")
	must(t, err)
	if got.Path != "link" || got.Size != 5 || !got.Mode.IsRegular() || got.Target != "" {
		t.Errorf("Stat says %+v", got)
	}
	if got.UID != uint32(os.Getuid()) || got.GID != uint32(os.Getgid()) {
		t.Errorf("owner is %d:%d", got.UID, got.GID)
	}
	got, err = f.Lstat("link")
	must(t, err)
	if got.Path != "link" || got.Mode.Type() != fs.ModeSymlink || got.Target != "file" {
		t.Errorf("Lstat says %+v", got)
	}
}

func TestStatErrors(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Symlink("nowhere", "dangling"))
	put(t, f, "file", "")
	for name, class := range map[string]error{
		"absent": fs.ErrNotExist, "dangling": fs.ErrNotExist, "file/x": syscall.ENOTDIR,
		"": syscall.EINVAL, "a\x00b": syscall.EINVAL,
	} {
		_, err := f.Stat(name)
		wantPathError(t, err, "stat", name, class)
	}
	_, err := f.Lstat("absent")
	wantPathError(t, err, "lstat", "absent", fs.ErrNotExist)
}

func TestETagChangesWithTheContent(t *testing.T) {
	f := newTestFS(t)
	tags := map[string]bool{}
	for _, content := range []string{"a", "b", "c", "dd"} {
		res := mustWrite(t, f, "file", content, WriteOptions{})
		attr, err := f.Stat("file")
		must(t, err)
		if attr.ETag != res.Attr.ETag {
			t.Errorf("etag is %s, the write said %s", attr.ETag, res.Attr.ETag)
		}
		if tags[attr.ETag] {
			t.Errorf("etag %s again after a change", attr.ETag)
		}
		tags[attr.ETag] = true
	}
}

func listed(t *testing.T, f *FS, name string, opts ListOptions) (paths []string, errs []error) {
	t.Helper()
	for attr, err := range f.List(t.Context(), name, opts) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		paths = append(paths, attr.Path)
	}
	return paths, errs
}

func TestListIsSortedAndRecursive(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("d/b/deep", MkdirOptions{Parents: true}))
	put(t, f, "d/c", "")
	put(t, f, "d/a\nb \xff", "")
	put(t, f, "d/b/deep/x", "")
	put(t, f, "d/b-", "")
	must(t, f.Symlink("b", "d/link"))

	got, errs := listed(t, f, "d", ListOptions{})
	if diff := cmp.Diff([]string{"d/a\nb \xff", "d/b", "d/b-", "d/c", "d/link"}, got); diff != "" || errs != nil {
		t.Errorf("errors %v, difference:\n%s", errs, diff)
	}
	got, errs = listed(t, f, "d", ListOptions{Recursive: true})
	want := []string{"d/a\nb \xff", "d/b", "d/b/deep", "d/b/deep/x", "d/b-", "d/c", "d/link"}
	if diff := cmp.Diff(want, got); diff != "" || errs != nil {
		t.Errorf("errors %v, difference:\n%s", errs, diff)
	}
	got, _ = listed(t, f, at(f, "d/b"), ListOptions{})
	if diff := cmp.Diff([]string{at(f, "d/b/deep")}, got); diff != "" {
		t.Errorf("with an absolute path: %s", diff)
	}
}

func TestListErrors(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "")
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o600))
	for name, class := range map[string]error{
		"absent": fs.ErrNotExist, "file": syscall.ENOTDIR, "fifo": syscall.ENOTDIR, "": syscall.EINVAL,
	} {
		paths, errs := listed(t, f, name, ListOptions{})
		if len(errs) != 1 || paths != nil {
			t.Fatalf("listing %q gave %q and errors %v", name, paths, errs)
		}
		wantPathError(t, errs[0], "readdir", name, class)
	}
}

func TestListEndsWithItsContext(t *testing.T) {
	f := newTestFS(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, f, name, "")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []string
	var last error
	for attr, err := range f.List(ctx, ".", ListOptions{}) {
		seen, last = append(seen, attr.Path), err
		cancel()
	}
	if len(seen) != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("saw %q and then %v", seen, last)
	}
}

func TestListLeavesOutWhatVanishes(t *testing.T) {
	f := newTestFS(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, f, name, "")
	}
	var seen []string
	for attr, err := range f.List(t.Context(), ".", ListOptions{}) {
		must(t, err)
		seen = append(seen, attr.Path)
		_ = os.Remove(filepath.Join(f.Workdir(), "b"))
	}
	if diff := cmp.Diff([]string{"a", "c"}, seen); diff != "" {
		t.Error(diff)
	}
}
