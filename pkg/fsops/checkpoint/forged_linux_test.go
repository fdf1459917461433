package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// forge stores directories of which each has two names for the next one, and returns a checkpoint of the first. Whoever can
// write to the store can do that.
func forge(t *testing.T, s *Store, depth int) ID {
	t.Helper()
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	var h Hash
	dir := tree.Entries(nil)
	for range depth + 1 {
		if h, err = s.objects.Put(dir.Encode(nil)); err != nil {
			t.Fatal(err)
		}
		dir = tree.Entries{{Name: "a", Kind: tree.Directory, Mode: 0o755, Hash: h}, {Name: "b", Kind: tree.Directory, Mode: 0o755, Hash: h}}
	}
	id, err := s.writeManifest(&manifest{Format: manifestFormat, Tree: h[:], Time: time.Now(), Began: time.Now()})
	if err := errors.Join(err, s.objects.Seal()); err != nil {
		t.Fatal(err)
	}
	return id
}

func openForForgery(t *testing.T) (root string, s *Store) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "tree")
	s, err := Open(filepath.Join(filepath.Dir(root), "store"), root, Options{Max: 2})
	if err = errors.Join(err, os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, "x"), []byte("1"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return root, s
}

// Directories deeper than any tree has them are refused, and end no collection.
func TestForgedDepthIsRefused(t *testing.T) {
	root, s := openForForgery(t)
	id := forge(t, s, 100_000)
	if _, err := s.Restore(t.Context(), id, RestoreOptions{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("restoring: %v", err)
	}
	for range 3 {
		if _, err := s.Create(t.Context(), CreateOptions{}); err != nil {
			t.Errorf("making one, with a collection: %v", err)
		}
	}
	names, err := os.ReadDir(root)
	if err != nil || len(names) != 1 {
		t.Errorf("the tree has %v, %v", names, err)
	}
}

// Long names take memory, too.
func TestScanIsBoundedByWhatItTakes(t *testing.T) {
	root, _ := openForForgery(t)
	for n := range 20 {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprint(n, strings.Repeat("x", 250))), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for left, ok := range map[int64]bool{20 * 250: false, 100_000: true} {
		fd, err := openat(-1, root, 0)
		if err != nil {
			t.Fatal(err)
		}
		sc := &scan{ctx: t.Context(), objects: object.HashOnly(), old: new(index), memory: tree.MaxMemory - left}
		if _, err := sc.run(fd); ok && err != nil || !ok && !errors.Is(err, ErrTooLarge) {
			t.Errorf("with %d bytes left: %v", left, err)
		}
	}
}

// The content of a file may be that of a directory's object, which may be larger than that of a file: what is in the directory
// stays all the same, and the file comes back.
func TestFileThatIsLikeADirectorysObjectHidesNothing(t *testing.T) {
	root, s := openForForgery(t)
	put := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755), os.WriteFile(filepath.Join(root, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	create := func() Checkpoint {
		c, err := s.Create(t.Context(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	put("d/f", "what is in the directory")
	for n := range 20_000 {
		put(fmt.Sprintf("d/file-%d", n), fmt.Sprint(n))
	}
	first := create()
	m, err := s.manifest(first.ID)
	if err != nil {
		t.Fatal(err)
	}
	top, err := tree.Read(s.objects, Hash(m.Tree))
	if err != nil || top[0].Name != "d" {
		t.Fatalf("%+v, %v", top, err)
	}
	text, err := s.objects.DirText(top[0].Hash)
	if err != nil || len(text) <= object.WholeSize {
		t.Fatal(len(text), err)
	}
	put("e", string(text)) // after d in its directory, so that it is seen before what is in d
	second := create()
	if err := s.Remove(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	put("d/f", "changed")
	put("e", "changed")
	if done, err := s.Restore(t.Context(), second.ID, RestoreOptions{}); err != nil {
		t.Errorf("%+v, %v", done, err)
	}
	for name, want := range map[string]string{"d/f": "what is in the directory", "e": string(text)} {
		if now, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(now) != want {
			t.Errorf("%s has %.99q, %v", name, now, err)
		}
	}
}

// What has taken the place of a file since the restore looked stays, whatever it is.
func TestWhatTookAFilesPlaceStays(t *testing.T) {
	for name, take := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("elsewhere", path) },
		"a FIFO":      func(path string) error { return unix.Mkfifo(path, 0o644) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		for _, changed := range []string{"x", "new", "hard"} { // which the restore replaces, removes, and links
			root, s := openForForgery(t)
			path := filepath.Join(root, changed)
			other := filepath.Join(root, "other")
			if err := errors.Join(os.WriteFile(other, []byte("1"), 0o644), os.Link(other, filepath.Join(root, "hard"))); err != nil {
				t.Fatal(err)
			}
			first, err := s.Create(t.Context(), CreateOptions{})
			if err == nil {
				err = errors.Join(os.WriteFile(filepath.Join(root, "x"), []byte("2"), 0o644), os.WriteFile(filepath.Join(root, "new"), nil, 0o644), os.WriteFile(other, []byte("2"), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			unlock, err := s.lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.newRestorer(first.ID, nil, newToken())
			if err == nil {
				_, err = r.savePresent(t.Context())
			}
			if err = errors.Join(err, os.Remove(path), take(path)); err != nil {
				t.Fatal(err)
			}
			was, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := r.complete(); !errors.Is(err, ErrIncomplete) {
				t.Errorf("%s in place of %s: %v", name, changed, err)
			}
			if now, err := os.Lstat(path); err != nil || !os.SameFile(was, now) {
				t.Errorf("%s in place of %s is gone: %v", name, changed, err)
			}
			unlock()
		}
	}
}
