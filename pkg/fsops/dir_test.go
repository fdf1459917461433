//go:build unix

package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMkdir(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("a", MkdirOptions{Perm: 0o700}))
	must(t, f.Mkdir("b/c/d", MkdirOptions{Parents: true, Perm: 0o700}))
	must(t, f.Mkdir("b/c/d", MkdirOptions{Parents: true}))
	for name, want := range map[string]fs.FileMode{"a": 0o700, "b": 0o700, "b/c": 0o700, "b/c/d": 0o700} {
		if attr, err := f.Stat(name); err != nil || attr.Mode.Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", name, attr.Mode, err, want)
		}
	}
	put(t, f, "file", "")
	for _, c := range []struct {
		name  string
		opts  MkdirOptions
		class error
	}{
		{"a", MkdirOptions{}, fs.ErrExist},
		{"x/y", MkdirOptions{}, fs.ErrNotExist},
		{"file", MkdirOptions{Parents: true}, fs.ErrExist},
		{"file/x", MkdirOptions{Parents: true}, syscall.ENOTDIR},
		{"", MkdirOptions{}, syscall.EINVAL},
	} {
		wantPathError(t, f.Mkdir(c.name, c.opts), "mkdir", c.name, c.class)
	}
}

func TestRemove(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("full/sub/deep", MkdirOptions{Parents: true}))
	must(t, f.Mkdir("empty", MkdirOptions{}))
	put(t, f, "full/sub/file", "")
	put(t, f, "keep", "kept")
	must(t, f.Mkdir("target", MkdirOptions{}))
	put(t, f, "target/file", "kept")
	must(t, f.Symlink("target", "link"))
	must(t, f.Symlink("../target", "full/link"))
	must(t, f.Symlink("../keep", "full/sub/link"))

	wantPathError(t, f.Remove(t.Context(), "full", RemoveOptions{}), "remove", "full", syscall.ENOTEMPTY)
	wantPathError(t, f.Remove(t.Context(), "absent", RemoveOptions{}), "remove", "absent", fs.ErrNotExist)
	wantPathError(t, f.Remove(t.Context(), "absent", RemoveOptions{Recursive: true}), "remove", "absent", fs.ErrNotExist)
	must(t, f.Remove(t.Context(), "absent", RemoveOptions{Force: true}))
	must(t, f.Remove(t.Context(), "keep/absent", RemoveOptions{Force: true}))
	must(t, f.Remove(t.Context(), "empty", RemoveOptions{}))
	must(t, f.Remove(t.Context(), "full", RemoveOptions{Recursive: true}))
	must(t, f.Remove(t.Context(), "link", RemoveOptions{Recursive: true}))
	wantNames(t, f.Workdir(), "keep", "target")
	wantContent(t, f, "target/file", "kept")
}

func TestRemoveLargeAndDeepTrees(t *testing.T) {
	f := newTestFS(t)
	for i := range 3 * dirBatch {
		put(t, f, fmt.Sprintf("%05d", i), "")
	}
	must(t, f.Mkdir("tree/"+strings.Repeat("d/", 500), MkdirOptions{Parents: true}))
	parent := New(filepath.Dir(f.Workdir()))
	inside := filepath.Join(parent.Workdir(), "inside")
	parent.SetWorkdir(inside)
	must(t, parent.Remove(t.Context(), f.Workdir(), RemoveOptions{Recursive: true}))
	if _, err := os.Lstat(f.Workdir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the tree is still there: %v", err)
	}
}

func TestRemoveRefuses(t *testing.T) {
	parent := t.TempDir()
	f := New(filepath.Join(parent, "work"))
	must(t, os.Mkdir(f.Workdir(), 0o755))
	put(t, f, "file", "kept")
	must(t, os.Symlink(parent, filepath.Join(parent, "alias")))
	all := RemoveOptions{Recursive: true, Force: true}
	for name, class := range map[string]error{
		"/": syscall.EINVAL, "/..": syscall.EINVAL, ".": syscall.EBUSY, f.Workdir(): syscall.EBUSY, "..": syscall.EBUSY,
		filepath.Join(parent, "alias", "work"): syscall.EBUSY, "": syscall.EINVAL,
	} {
		wantPathError(t, f.Remove(t.Context(), name, all), "remove", name, class)
	}
	wantContent(t, f, "file", "kept")
}

func TestRemoveEndsWithItsContext(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("d", MkdirOptions{}))
	put(t, f, "d/file", "kept")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Remove(ctx, "d", RemoveOptions{Recursive: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	wantContent(t, f, "d/file", "kept")
}

func TestRename(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "a", "a")
	put(t, f, "b", "b")
	must(t, f.Mkdir("d/sub", MkdirOptions{Parents: true}))
	wantLinkError(t, f.Rename(t.Context(), "a", "b", RenameOptions{NoReplace: true}), "rename", "a", "b", fs.ErrExist)
	wantLinkError(t, f.Rename(t.Context(), "a", "d", RenameOptions{}), "rename", "a", "d", fs.ErrExist)
	wantLinkError(t, f.Rename(t.Context(), "absent", "x", RenameOptions{}), "rename", "absent", "x", fs.ErrNotExist)
	wantLinkError(t, f.Rename(t.Context(), "absent", "x", RenameOptions{NoReplace: true}), "rename", "absent", "x", fs.ErrNotExist)
	wantLinkError(t, f.Rename(t.Context(), "d", "d/sub/x", RenameOptions{}), "rename", "d", "d/sub/x", syscall.EINVAL)
	wantLinkError(t, f.Rename(t.Context(), "d", "d/sub/x", RenameOptions{NoReplace: true}), "rename", "d", "d/sub/x", syscall.EINVAL)
	wantLinkError(t, f.Rename(t.Context(), "a", "", RenameOptions{}), "rename", "a", "", syscall.EINVAL)
	must(t, f.Rename(t.Context(), "a", "b", RenameOptions{}))
	must(t, f.Rename(t.Context(), "d", "e", RenameOptions{NoReplace: true}))
	wantNames(t, f.Workdir(), "b", "e")
	wantNames(t, at(f, "e"), "sub")
	wantContent(t, f, "b", "a")
}

// Some file systems cannot rename without replacing; this is how it works there.
func TestRenameByClaim(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "a", "a")
	put(t, f, "b", "b")
	must(t, f.Mkdir("d/sub", MkdirOptions{Parents: true}))
	must(t, f.Mkdir("e", MkdirOptions{}))
	must(t, f.Symlink("a", "link"))
	for src, dst := range map[string]string{"a": "b", "d": "e", "link": "b"} {
		if err := renameByClaim(at(f, src), at(f, dst)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("renaming %s to %s: %v, want that the target exists", src, dst, err)
		}
	}
	if err := renameByClaim(at(f, "d"), at(f, "d/sub/x")); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("renaming into itself: %v", err)
	}
	wantNames(t, at(f, "d/sub"))
	must(t, renameByClaim(at(f, "a"), at(f, "a2")))
	must(t, renameByClaim(at(f, "d"), at(f, "d2")))
	must(t, renameByClaim(at(f, "link"), at(f, "link2")))
	must(t, renameOver(at(f, "b"), at(f, "b2"), claimFile(at(f, "b2"))))
	wantNames(t, f.Workdir(), "a2", "b2", "d2", "e", "link2")
	wantContent(t, f, "a2", "a")
	wantContent(t, f, "b2", "b")
	if attr, err := f.Lstat("link2"); err != nil || attr.Target != "a" {
		t.Errorf("link2 is %+v (%v)", attr, err)
	}
}

func TestChmodAndSymlink(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "")
	must(t, f.Symlink("file", "link"))
	want := 0o751 | fs.ModeSetuid | fs.ModeSticky
	must(t, f.Chmod("link", want))
	if attr, err := f.Stat("file"); err != nil || attr.Mode != want {
		t.Errorf("mode is %v (%v)", attr.Mode, err)
	}
	wantPathError(t, f.Chmod("absent", 0o600), "chmod", "absent", fs.ErrNotExist)
	wantLinkError(t, f.Symlink("x", "file"), "symlink", "x", "file", fs.ErrExist)
	wantLinkError(t, f.Symlink("x", ""), "symlink", "x", "", syscall.EINVAL)
	wantLinkError(t, f.Symlink("x\x00y", "z"), "symlink", "x\x00y", "z", syscall.EINVAL)
	must(t, f.Symlink("no\nsuch \xff", "odd"))
	if attr, err := f.Lstat("odd"); err != nil || attr.Target != "no\nsuch \xff" {
		t.Errorf("target is %q (%v)", attr.Target, err)
	}
}
