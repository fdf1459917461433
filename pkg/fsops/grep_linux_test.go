package fsops

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestGrepUnreadableFileDoesNotLoseResults(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a", "b", "c", "dir/x", "e")
		must(t, os.Chmod(at(f, "b"), 0o600))
		must(t, os.Chmod(at(f, "dir"), 0o700))
	})
	if f == nil {
		return
	}
	stats := wantGrep(t, f, ".", GrepOptions{}, "a:1:a", "error b", "c:1:c", "error dir", "e:1:e")
	if stats.Files != 3 || stats.Matches != 3 {
		t.Errorf("stats %+v", stats)
	}
	for r, err := range f.Grep(t.Context(), ".", GrepOptions{}) {
		must(t, err)
		if r.Kind == GrepFileError {
			wantPathError(t, r.Err, "grep", r.Path, fs.ErrPermission)
		}
	}
}

// Opening a FIFO would wait for a writer for ever, and a device never ends.
func TestGrepNeverOpensSpecialFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "file", "to-fifo -> fifo", "to-socket -> socket", "to-device -> /dev/zero")
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o666))
	t.Chdir(f.Workdir()) // the addresses of sockets are short
	l, err := net.Listen("unix", "socket")
	must(t, err)
	defer l.Close()
	special := []string{"fifo", "socket", "/dev/zero", "to-fifo", "to-socket", "to-device"}
	if err := syscall.Mknod(at(f, "device"), syscall.S_IFCHR|0o666, 1<<8|5); err == nil { // /dev/zero, which only root may make
		special = append(special, "device")
	}
	for _, follow := range []bool{false, true} {
		wantGrep(t, f, "file", GrepOptions{Follow: follow}, "file:1:file")
	}
	for _, name := range special {
		err := onlyError(t, f.Grep(t.Context(), "file", GrepOptions{Paths: []string{name}}))
		wantPathError(t, err, "grep", name, ErrNotRegular)
	}
}

// Without its rules, a search finds too much: that is said, by the name of the
// file that could not be read.
func TestUnreadableIgnoreFileIsReported(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a", ".gitignore", "sub/.gitignore", "sub/b")
		must(t, os.Chmod(at(f, ".gitignore"), 0))
		must(t, os.Chmod(at(f, "sub/.gitignore"), 0))
	})
	if f == nil {
		return
	}
	wantGrep(t, f, ".", GrepOptions{}, "error .gitignore", "a:1:a", "error sub/.gitignore", "sub/b:1:sub/b")
	found := map[string]bool{}
	for m, err := range f.Glob(t.Context(), "**/b", GlobOptions{Ignore: true}) {
		var pathErr *fs.PathError
		if errors.As(err, &pathErr) {
			m.Path = "error " + pathErr.Path
		}
		found[m.Path] = true
	}
	if len(found) != 3 || !found["error .gitignore"] || !found["error sub/.gitignore"] || !found["sub/b"] {
		t.Errorf("found %v", found)
	}
	_, err := f.Archive(t.Context(), "sub", io.Discard, ArchiveOptions{Ignore: true})
	wantPathError(t, err, "archive", "sub/../.gitignore", fs.ErrPermission)
}
