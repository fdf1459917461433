package checkpoint

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Whatever is in the store: what is read as an index is what would be written.
func FuzzIndex(f *testing.F) {
	f.Add((&index{boot: "b", records: []record{{inodeID: inodeID{1, 2}}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := decodeIndex(b); err == nil && !bytes.Equal(x.encode(), b) {
			t.Errorf("%q is another index", b)
		}
	})
}

// Whoever can write to the store can write an index, by which a file that has not changed has the content of another one.
func TestForgedIndexIsNotBelieved(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		root, s := openForForgery(t)
		file, other := filepath.Join(root, "x"), filepath.Join(root, "other")
		if err := os.WriteFile(other, []byte("2"), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Create(t.Context(), CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		forgeIndex(t, s, file, other)
		if restarted {
			next, err := Open(s.dir, root, Options{})
			if err != nil {
				t.Fatal(err)
			}
			s = next
		}
		c, err := s.Create(t.Context(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("3"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = s.Restore(t.Context(), c.ID, RestoreOptions{})
		if text, readErr := os.ReadFile(file); errors.Join(err, readErr) != nil || string(text) != "1" {
			t.Errorf("with a restart %v, it comes back as %q, %v", restarted, text, errors.Join(err, readErr))
		}
	}
}

// forgeIndex writes an index by which a file has the content of another one, and neither has changed.
func forgeIndex(t *testing.T, s *Store, file, other string) {
	t.Helper()
	path := filepath.Join(s.dir, indexFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := decodeIndex(text)
	if err != nil {
		t.Fatal(err)
	}
	recordOf := func(path string) *record {
		var st unix.Statx_t
		if err := statx(unix.AT_FDCWD, path, &st); err != nil {
			t.Fatal(err)
		}
		return x.find(inodeID{deviceOf(&st), st.Ino})
	}
	forged, of := recordOf(file), recordOf(other)
	forged.hash, forged.flags = of.hash, 0
	if err := os.WriteFile(path, x.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint that is dropped takes the index along only if that knows files by objects that nobody else has: without an
// index, the next checkpoint reads every file.
func TestIndexStaysUnlessWhatItKnowsGoes(t *testing.T) {
	root := t.TempDir()
	s, err := Open(filepath.Join(t.TempDir(), "store"), root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var made []Checkpoint
	for _, text := range []string{"first", "second", "third"} {
		if err := os.WriteFile(filepath.Join(root, "x"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := s.Create(t.Context(), CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, c)
	}
	for _, c := range []struct {
		drop  Checkpoint
		stays bool
	}{{made[0], true}, {made[2], false}} {
		if err := s.Remove(t.Context(), c.drop.ID); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(s.path(indexFile)); errors.Is(err, fs.ErrNotExist) == c.stays {
			t.Errorf("the index stays is %v, want %v", err == nil, c.stays)
		}
	}
	again, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	_, err = s.Restore(t.Context(), again.ID, RestoreOptions{})
	if text, readErr := os.ReadFile(filepath.Join(root, "x")); errors.Join(err, readErr) != nil || string(text) != "third" {
		t.Errorf("the next checkpoint has %q, %v", text, errors.Join(err, readErr))
	}
}
