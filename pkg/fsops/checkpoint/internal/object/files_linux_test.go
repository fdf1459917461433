package object

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Not parallel, since it bounds the descriptors of the process.
func TestRemoveTreeTakesFewDescriptors(t *testing.T) {
	const levels = 1000
	path := filepath.Join(t.TempDir(), "top")
	plantDeep(t, path, levels)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: levels / 2, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	if err := RemoveTree(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// plantDeep makes directories in one another, each with a file and a link to what is to stay.
func plantDeep(t *testing.T, path string, levels int) {
	t.Helper()
	stays := t.TempDir()
	kept := filepath.Join(stays, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := unix.AT_FDCWD
	for name := path; levels > 0; levels-- {
		if err := unix.Mkdirat(dir, name, 0o700); err != nil {
			t.Fatal(err)
		}
		inner, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = errors.Join(unix.Symlinkat(stays, inner, "link"), unix.Mknodat(inner, "file", unix.S_IFREG|0o600, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		if dir != unix.AT_FDCWD {
			unix.Close(dir)
		}
		dir, name = inner, "deeper"
	}
	unix.Close(dir)
	t.Cleanup(func() {
		if _, err := os.Lstat(kept); err != nil {
			t.Error(err)
		}
	})
}
