package fsops

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles limits the descriptors of this process during the test.
func limitFiles(t *testing.T, most uint64) {
	t.Helper()
	var before syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: before.Max}))
	t.Cleanup(func() { must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before)) })
}

// newDeepTree makes this many nested directories, with a file in the innermost.
func newDeepTree(t *testing.T, name string, depth int) *FS {
	t.Helper()
	// The path is short, because the kernel refuses paths of more than 4096 bytes.
	dir, err := os.MkdirTemp("", "deep")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	f := New(dir)
	path := filepath.Join(name, strings.Repeat("d/", depth-1))
	must(t, os.MkdirAll(at(f, path), 0o755))
	put(t, f, filepath.Join(path, "f"), "deep")
	return f
}

func TestDeepTreesTakeFewDescriptors(t *testing.T) {
	const depth = 2000
	f := newDeepTree(t, "a", depth)
	limitFiles(t, 256)
	listed := 0
	for _, err := range f.List(t.Context(), "a", ListOptions{Recursive: true}) {
		must(t, err)
		listed++
	}
	if listed != depth {
		t.Errorf("%d files are listed, want %d", listed, depth)
	}
	found := 0
	for _, err := range f.Glob(t.Context(), "a/**/d", GlobOptions{}) {
		must(t, err)
		found++
	}
	if found != depth-1 {
		t.Errorf("%d directories are found, want %d", found, depth-1)
	}
	must(t, f.Copy(t.Context(), "a", "b", CopyOptions{Recursive: true}))
	wantContent(t, f, filepath.Join("b", strings.Repeat("d/", depth-1), "f"), "deep")
	var archive bytes.Buffer
	stats, err := f.Archive(t.Context(), "b", &archive, ArchiveOptions{Ignore: true})
	must(t, err)
	if stats.Entries != depth {
		t.Errorf("%d entries in the archive, want %d", stats.Entries, depth)
	}
	must(t, f.Remove(t.Context(), "a", RemoveOptions{Recursive: true}))
	must(t, f.Remove(t.Context(), "b", RemoveOptions{Recursive: true}))
	wantNames(t, f.Workdir())
}

// A removal returns to directories that it closed by way of their subdirectories.
func TestRemoveOfDeepTreeWithFilesOnEachLevel(t *testing.T) {
	const depth = 3 * maxRemoveOpen
	f := newDeepTree(t, "a", depth)
	for level := range depth {
		for _, name := range []string{"A", "z", "e/f/g/"} {
			makeTree(t, f, filepath.Join("a", strings.Repeat("d/", level))+"/"+name)
		}
	}
	put(t, f, "outside", "kept")
	must(t, f.Remove(t.Context(), "a", RemoveOptions{Recursive: true}))
	wantNames(t, f.Workdir(), "outside")
}

// If a directory is moved while it is being removed, the removal must not go on
// into other directories.
func TestRemoveDoesNotFollowDirectoryThatWasMoved(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a/b/", "elsewhere/kept")
	open := func(name string) *removeDir {
		file, err := openDirAt(unix.AT_FDCWD, at(f, name), name)
		must(t, err)
		return &removeDir{file: file}
	}
	parent, child := open("a"), open("a/b")
	defer child.file.Close()
	parent.suspend()
	must(t, parent.resume(child))
	parent.suspend()
	must(t, os.Rename(at(f, "a/b"), at(f, "elsewhere/b")))
	if err := parent.resume(child); err != unix.ESTALE || parent.file != nil {
		t.Errorf("error is %v", err)
	}
}
