//go:build !race

package fsops

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGlobOfAHugeDirectoryIsBounded(t *testing.T) {
	const files = 500_000
	atMost(t, func(f *FS) {
		for i := range files {
			must(t, unix.Mknod(at(f, "a file of a huge directory, number "+strconv.Itoa(i)), unix.S_IFREG|0o600, 0))
		}
	}, func(f *FS) {
		globCancelled(t, f)
		for _, order := range []GlobSort{GlobUnsorted, GlobByName, GlobByTime} {
			found := 0
			for _, err := range f.Glob(t.Context(), "**/*", GlobOptions{Sort: order, Ignore: true}) {
				must(t, err)
				found++
			}
			if found != files {
				t.Errorf("order %d: %d files found", order, found)
			}
			if some, more := globbed(t, f, "*7", GlobOptions{Sort: order, Limit: 10}); len(some) != 10 || !more {
				t.Errorf("order %d: %d files with a limit of 10, truncated %v", order, len(some), more)
			}
		}
	})
}

// globCancelled cancels a search at its first result, and one before it has
// any.
func globCancelled(t *testing.T, f *FS) {
	t.Helper()
	for _, order := range []GlobSort{GlobUnsorted, GlobByName} {
		ctx, cancel := context.WithCancel(t.Context())
		var at time.Time
		end := func() { at = time.Now(); cancel() }
		if order == GlobByName {
			time.AfterFunc(20*time.Millisecond, end)
		}
		var last error
		for _, err := range f.Glob(ctx, "*", GlobOptions{Sort: order}) {
			if last = err; err == nil && at.IsZero() {
				end()
			}
		}
		took := time.Since(at)
		t.Logf("order %d: ended %v after its context", order, took)
		if !errors.Is(last, context.Canceled) || took > 10*time.Second {
			t.Errorf("order %d: error is %v, %v after the end of the context", order, last, took)
		}
	}
}
