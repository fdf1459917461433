//go:build !race

package fsops

import (
	"context"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// hugeDirectory is the number of files in the directory that both searches read.
const hugeDirectory = 500_000

// TestSearchesOfAHugeDirectoryAreBounded makes a directory once, and runs each
// search in its own process.
func TestSearchesOfAHugeDirectoryAreBounded(t *testing.T) {
	var f *FS
	if os.Getenv(boundedDir) == "" {
		f = New(memoryDir(t))
		for i := range hugeDirectory {
			must(t, unix.Mknod(at(f, strconv.Itoa(i)), unix.S_IFREG|0o600, 0))
		}
		put(t, f, "7", "needle\n")
	}
	for name, search := range map[string]func(*testing.T, *FS){"glob": globHuge, "grep": grepHuge} {
		t.Run(name, func(t *testing.T) {
			if !bounded(t, func(f *FS) { search(t, f) }) {
				searchAgain(t, f)
			}
		})
	}
}

func globHuge(t *testing.T, f *FS) {
	globCancelled(t, f)
	for _, order := range []GlobSort{GlobUnsorted, GlobByName, GlobByTime} {
		found := 0
		for _, err := range f.Glob(t.Context(), "**/*", GlobOptions{Sort: order, Ignore: true}) {
			must(t, err)
			found++
		}
		if found != hugeDirectory {
			t.Errorf("order %d: %d files found", order, found)
		}
		if some, more := globbed(t, f, "*7", GlobOptions{Sort: order, Limit: 10}); len(some) != 10 || !more {
			t.Errorf("order %d: %d files with a limit of 10, truncated %v", order, len(some), more)
		}
	}
}

// globCancelled cancels one search at its first result, and another before it has
// any.
func globCancelled(t *testing.T, f *FS) {
	t.Helper()
	for _, order := range []GlobSort{GlobUnsorted, GlobByName} {
		ctx, cancel := context.WithCancel(t.Context())
		if order == GlobByName {
			cancelOnceOpened(t, f.Workdir(), cancel)
		}
		err := endOf(t, func(yield func(GlobMatch, error) bool) {
			for r, err := range f.Glob(ctx, "*", GlobOptions{Sort: order}) {
				if cancel(); !yield(r, err) {
					return
				}
			}
		})
		wantPathError(t, err, "glob", "*", context.Canceled)
	}
}

func grepHuge(t *testing.T, f *FS) {
	cancelled(t, f, "needle", GrepOptions{})
	for _, sorted := range []bool{false, true} {
		if matches, others := finds(t, f, "needle", GrepOptions{Sort: sorted}); matches != 1 || others != 0 {
			t.Errorf("%d matches, %d others", matches, others)
		}
	}
}
