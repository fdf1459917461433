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
	"time"
)

func TestCopyKeepsModeAndTime(t *testing.T) {
	f := newTestFS(t)
	when := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	put(t, f, "src", "content")
	must(t, f.Chmod("src", 0o666|fs.ModeSetuid))
	must(t, os.Chtimes(at(f, "src"), when, when))
	put(t, f, "existing", "longer than the content")
	must(t, f.Symlink("src", "link"))
	for src, dst := range map[string]string{"src": "new", "link": "existing"} {
		must(t, f.Copy(t.Context(), src, dst, CopyOptions{}))
		wantContent(t, f, dst, "content")
		attr, err := f.Lstat(dst)
		if err != nil || attr.Mode != 0o666 || !attr.ModTime.Equal(when) {
			t.Errorf("the copy is %+v (%v)", attr, err)
		}
	}
	wantNames(t, f.Workdir(), "src", "link", "new", "existing")
}

func TestCopyErrors(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "file", "content")
	put(t, f, "other", "other")
	must(t, f.Symlink("file", "link"))
	must(t, f.Mkdir("dir/sub", MkdirOptions{Parents: true}))
	must(t, f.Symlink("dir/sub", "dirlink"))
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o600))
	tree, keep := CopyOptions{Recursive: true}, CopyOptions{NoReplace: true}
	for _, c := range []struct {
		src, dst string
		opts     CopyOptions
		class    error
	}{
		{"absent", "x", CopyOptions{}, fs.ErrNotExist},
		{"file", "absent/x", CopyOptions{}, fs.ErrNotExist},
		{"file", "other", keep, fs.ErrExist},
		{"file", "file", CopyOptions{}, syscall.EINVAL},
		{"file", "link", CopyOptions{}, syscall.EINVAL},
		{"file", "dir", CopyOptions{}, syscall.EISDIR},
		{"dir", "x", CopyOptions{}, syscall.EISDIR},
		{"dir", "dir", tree, syscall.EINVAL},
		{"dir", "dir/sub/x", tree, syscall.EINVAL},
		{"dir", "dirlink/x", tree, syscall.EINVAL},
		{"dir", "file", tree, fs.ErrExist},
		{"fifo", "x", tree, ErrNotRegular},
		{"", "x", tree, syscall.EINVAL},
		{"file", "", tree, syscall.EINVAL},
	} {
		err := f.Copy(t.Context(), c.src, c.dst, c.opts)
		wantLinkError(t, err, "copy", c.src, c.dst, c.class)
	}
	wantContent(t, f, "file", "content")
	wantContent(t, f, "other", "other")
	wantNames(t, f.Workdir(), "dir", "dirlink", "fifo", "file", "link", "other")
	wantNames(t, at(f, "dir"), "sub")
}

func TestCopyTree(t *testing.T) {
	f := newTestFS(t)
	when := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	must(t, f.Mkdir("src/sub", MkdirOptions{Parents: true}))
	put(t, f, "src/file", "content")
	put(t, f, "src/sub/x", "x")
	must(t, f.Symlink("nowhere", "src/dangling"))
	must(t, f.Symlink("sub", "src/dirlink"))
	must(t, f.Chmod("src/sub", 0o555))
	must(t, os.Chtimes(at(f, "src/sub"), when, when))

	must(t, f.Copy(t.Context(), "src", "dst", CopyOptions{Recursive: true}))
	wantNames(t, at(f, "dst"), "dangling", "dirlink", "file", "sub")
	wantContent(t, f, "dst/sub/x", "x")
	if attr, err := f.Stat("dst/sub"); err != nil || attr.Mode.Perm() != 0o555 || !attr.ModTime.Equal(when) {
		t.Errorf("dst/sub is %+v (%v)", attr, err)
	}
	for link, target := range map[string]string{"dangling": "nowhere", "dirlink": "sub"} {
		if attr, err := f.Lstat("dst/" + link); err != nil || attr.Target != target {
			t.Errorf("dst/%s names %q (%v)", link, attr.Target, err)
		}
	}

	err := f.Copy(t.Context(), "src", "dst", CopyOptions{Recursive: true, NoReplace: true})
	wantLinkError(t, err, "copy", "src", "dst", fs.ErrExist)
	put(t, f, "src/file", "content 2")
	put(t, f, "dst/own", "own")
	must(t, os.Remove(at(f, "src/dangling")))
	must(t, f.Symlink("elsewhere", "src/dangling"))
	must(t, f.Copy(t.Context(), "src", "dst", CopyOptions{Recursive: true}))
	wantContent(t, f, "dst/file", "content 2")
	wantNames(t, at(f, "dst"), "dangling", "dirlink", "file", "own", "sub")
	if attr, err := f.Lstat("dst/dangling"); err != nil || attr.Target != "elsewhere" {
		t.Errorf("dst/dangling names %q (%v)", attr.Target, err)
	}
}

func TestCopyTreeNamesTheEntryThatFails(t *testing.T) {
	f := newTestFS(t)
	must(t, f.Mkdir("src", MkdirOptions{}))
	must(t, syscall.Mkfifo(at(f, "src/fifo"), 0o600))
	err := f.Copy(t.Context(), "src", "dst", CopyOptions{Recursive: true})
	wantLinkError(t, err, "copy", filepath.Join("src", "fifo"), filepath.Join("dst", "fifo"), ErrNotRegular)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Copy(ctx, "src", "dst2", CopyOptions{Recursive: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled copy: %v", err)
	}
}
