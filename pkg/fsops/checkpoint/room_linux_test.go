package checkpoint

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// endsSoon is a context that ends once somebody has looked at it some times.
type endsSoon struct {
	context.Context
	looks int
}

func (c *endsSoon) Err() error {
	if c.looks--; c.looks < 0 {
		return context.Canceled
	}
	return nil
}

// Whoever no longer waits for a checkpoint does not have a large tree counted to its end.
func TestCountOfTheVolumeEndsWithItsContext(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprint("d", i), "e"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	count := func(ctx context.Context) int {
		fd, err := openat(unix.AT_FDCWD, root, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			t.Fatal(err)
		}
		u := usage{ctx: ctx, buf: make([]byte, 32<<10)}
		u.add(fd, 0)
		return u.entries
	}
	if n := count(t.Context()); n != 100 {
		t.Fatalf("it counts %d of 100 entries", n)
	}
	if n := count(&endsSoon{t.Context(), 5}); n >= 100 {
		t.Errorf("it counts all %d entries after its context has ended", n)
	}
}
