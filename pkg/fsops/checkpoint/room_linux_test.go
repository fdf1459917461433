package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// A transfer that is cancelled does not take the bound of the volume from another one that is under way.
func TestCancelledTransferLeavesTheBoundOfTheVolume(t *testing.T) {
	base, ctx := t.TempDir(), t.Context()
	open := func(name string, volume int64) *Store {
		root := filepath.Join(base, name)
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		noise := make([]byte, 10<<20)
		_, _ = rand.NewChaCha8([32]byte{name[0]}).Read(noise)
		if err := os.WriteFile(filepath.Join(root, "file"), noise, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(root+".store", root, Options{Volume: volume})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	from, to := open("from", 0), open("to", 24<<20)
	c, err := from.Create(ctx, CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := from.Send(ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	receive := func(ctx context.Context) *Receiver {
		r, err := to.Receive(ctx, c.ID, x.Manifest(), ReceiveOptions{All: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := receive(ctx)
	defer first.Close()
	cancelled, cancel := context.WithCancel(ctx)
	second := receive(cancelled)
	cancel()
	second.Close()
	if err := x.All(ctx, func(p []Part) error { return first.Take(ctx, p) }); !errors.Is(err, ErrNoRoom) {
		t.Errorf("10 MiB for a store that may have half of 14 MiB: %v", err)
	}
}

// A count that its context ends is not taken for what the tree has.
func TestCountThatWasCutShortIsNotKept(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "file"), make([]byte, 8<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	var use treeUse
	if n, err := use.bytes(&endsSoon{t.Context(), 0}, root); !errors.Is(err, context.Canceled) {
		t.Errorf("a count that was cut short: %d bytes, %v", n, err)
	}
	if n, err := use.bytes(t.Context(), root); err != nil || n < 8<<10 {
		t.Errorf("8 KiB take %d bytes, %v", n, err)
	}
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
