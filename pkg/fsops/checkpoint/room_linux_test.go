package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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

// A manifest that cannot be read just now may be read later: no collection takes it for none, and drops what it has.
func TestManifestThatCannotBeReadKeepsItsObjects(t *testing.T) {
	dir := t.TempDir()
	root, store := filepath.Join(dir, "tree"), filepath.Join(dir, "store")
	var made []ID
	var s *Store
	for _, text := range []string{"1", "2"} {
		err := errors.Join(os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(root, "a"), []byte(text), 0o644))
		if err == nil && s == nil {
			s, err = Open(store, root, Options{})
		}
		if err != nil {
			t.Fatal(err)
		}
		c, err := s.Create(t.Context(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, c.ID)
	}
	// Somebody else, to whom the store belongs, but for one manifest.
	const uid = 65534
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Base(path) == string(made[0]) {
			return err
		}
		return os.Chown(path, uid, uid)
	})
	if err != nil {
		t.Fatalf("cannot give files away, for which this test needs root: %v", err)
	}
	var listErr, removeErr error
	asUser(uid, func() {
		_, listErr = s.List(t.Context())
		removeErr = s.Remove(t.Context(), made[1])
	})
	for doing, err := range map[string]error{"listing": listErr, "removing another": removeErr} {
		if !errors.Is(err, unix.EACCES) {
			t.Errorf("%s: %v, want EACCES of the manifest", doing, err)
		}
	}
	if _, err := s.Restore(t.Context(), made[0], RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(root, "a")); err != nil || string(text) != "1" {
		t.Errorf("it has %q, %v", text, err)
	}
}

// asUser calls f in a thread that has the rights of a user in the file system.
func asUser(uid int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _ := unix.SetfsuidRetUid(uid)
	defer unix.SetfsuidRetUid(before)
	f()
}
