package fsops

import (
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
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
	stats := wantGrep(t, f, ".", GrepOptions{}, "a:1:a", "c:1:c", "e:1:e", "error b", "error dir")
	if stats.Files != 3 || stats.Matches != 3 {
		t.Errorf("stats %+v", stats)
	}
	_, skipped := collected(t, f.Grep(t.Context(), ".", GrepOptions{Sort: true}))
	for i, name := range []string{"b", "dir"} {
		wantPathError(t, skipped[i], "grep", name, fs.ErrPermission)
	}
}

// Opening a FIFO would wait for a writer forever, and a device has no end.
func TestGrepNeverOpensSpecialFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "file", "to-fifo -> fifo", "to-socket -> socket", "to-device -> /dev/zero")
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o666))
	t.Chdir(f.Workdir()) // socket addresses must be short
	l, err := net.Listen("unix", "socket")
	must(t, err)
	defer l.Close()
	special := []string{"fifo", "socket", "/dev/zero", "to-fifo", "to-socket", "to-device"}
	if err := syscall.Mknod(at(f, "device"), syscall.S_IFCHR|0o666, 1<<8|5); err == nil { // /dev/zero; only root can make it
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

// Without a file's rules, a search finds too much. So it reports the file that it
// could not read.
func TestUnreadableIgnoreFileIsReported(t *testing.T) {
	f := asNobody(t, func(f *FS) {
		makeTree(t, f, "a", ".gitignore", "sub/.gitignore", "sub/b")
		must(t, os.Chmod(at(f, ".gitignore"), 0))
		must(t, os.Chmod(at(f, "sub/.gitignore"), 0))
	})
	if f == nil {
		return
	}
	wantGrep(t, f, ".", GrepOptions{}, "a:1:a", "sub/b:1:sub/b", "error .gitignore", "error sub/.gitignore")
	matches, skipped := collected(t, f.Glob(t.Context(), "**/b", GlobOptions{Ignore: true}))
	if len(matches) != 1 || matches[0].Path != "sub/b" || !slices.Equal(namesOf(skipped), []string{"error .gitignore", "error sub/.gitignore"}) {
		t.Errorf("found %v, skipped %v", matches, skipped)
	}
	_, err := f.Archive(t.Context(), "sub", io.Discard, ArchiveOptions{Ignore: true})
	wantPathError(t, err, "archive", "sub/../.gitignore", fs.ErrPermission)
}
