package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// sharedText and largeText are contents that two trees have. The one is in a pack, and the other is a file of its own.
var sharedText, largeText = bytes.Repeat([]byte("what two trees have. "), 1000), make([]byte, 3<<20)

// writeShared writes files that two trees have, one with holes among them.
func writeShared(t *testing.T, root string) {
	t.Helper()
	writeAll(t, root, map[string][]byte{"shared": sharedText, "large": largeText})
	sparse, err := os.Create(filepath.Join(root, "sparse"))
	if err == nil {
		_, err = sparse.WriteAt([]byte("in the middle"), 4<<20)
		err = errors.Join(err, sparse.Truncate(8<<20), sparse.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// checkShared checks that a tree has the files that writeShared has written.
func checkShared(t *testing.T, root string) {
	t.Helper()
	sparse := make([]byte, 8<<20)
	copy(sparse[4<<20:], "in the middle")
	for name, want := range map[string][]byte{"shared": sharedText, "large": largeText, "sparse": sparse} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s has other content: %d bytes, %v", name, len(got), err)
		}
	}
}

// openFork returns a store with a checkpoint, and an empty tree that is to get it.
func openFork(t *testing.T) (from, to *Store, root string, id ID) {
	t.Helper()
	source, from := openForForgery(t)
	writeShared(t, source)
	c, err := from.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	root, to = openForForgery(t)
	if err := os.Remove(filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	return from, to, root, c.ID
}

func writeAll(t *testing.T, root string, files map[string][]byte) {
	t.Helper()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// fork has a source fill a tree.
func fork(t *testing.T, from, to *Store, id ID, change func([]Part) []Part) error {
	t.Helper()
	_, err := receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, change)
	if err == nil {
		_, err = to.Populate(t.Context(), id)
	}
	return err
}

// inContents tells a lie about the contents of files alone, which come after the one directory.
func inContents(lie func([]Part) []Part) func([]Part) []Part {
	first := true
	return func(p []Part) []Part {
		if first {
			first = false
			return p
		}
		return lie(p)
	}
}

// otherContents is a source that sends other contents of the same sizes, where one part has all of it. What is larger it sends as
// it is: what has more than 1 MiB is compared on arrival.
func otherContents(parts []Part) []Part {
	for _, p := range parts {
		if p.First && p.Size == int64(len(p.Data)) {
			p.Data[len(p.Data)-1] ^= 1
		}
	}
	return parts
}

// garbage is a source that sends a few bytes for all contents, however large they are.
func garbage(parts []Part) (sent []Part) {
	for _, p := range parts {
		if p.First {
			sent = append(sent, Part{First: true, Object: p.Object, Size: 7, Data: []byte("garbage")})
		}
	}
	return sent
}

// A source that lies fills no tree, and does not keep an honest one from filling it.
func TestSourceThatLiesFillsNoTree(t *testing.T) {
	all := map[string]func([]Part) []Part{"other contents": otherContents, "garbage": garbage}
	for name, lie := range lies {
		all[name] = lie
	}
	for name, lie := range all {
		from, to, root, id := openFork(t)
		if err := fork(t, from, to, id, inContents(lie)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, err := os.ReadDir(root); err != nil || len(entries) > 0 {
			t.Errorf("%s: the tree has %v, %v", name, entries, err)
		}
		if list, err := to.List(t.Context()); err != nil || slices.ContainsFunc(list, func(c Checkpoint) bool { return c.ID == id }) {
			t.Errorf("%s: there is %v, %v", name, list, err)
		}
		if err := fork(t, from, to, id, honest); err != nil {
			t.Errorf("%s, and then the truth: %v", name, err)
		}
		checkShared(t, root)
		if err := fork(t, from, to, id, honest); !errors.Is(err, unix.EEXIST) {
			t.Errorf("%s: filling it again: %v", name, err)
		}
	}
}

// Contents that nobody has compared with their hashes are not taken for those of the tree's own files, whatever comes between.
func TestUnverifiedContentIsInNoCheckpointOfTheTree(t *testing.T) {
	for name, between := range map[string]func(t *testing.T, s *Store, id ID) *Store{
		"nothing":            func(_ *testing.T, s *Store, _ ID) *Store { return s },
		"another checkpoint": func(t *testing.T, s *Store, _ ID) *Store { checkpointOf(t, s); return s },
		"another process":    func(t *testing.T, s *Store, _ ID) *Store { return reopen(t, s) },
		"both":               func(t *testing.T, s *Store, _ ID) *Store { checkpointOf(t, s); return reopen(t, s) },
		"a process that is killed while it makes files": func(t *testing.T, s *Store, id ID) *Store {
			cutOffPopulate(t, s, id)
			s = reopen(t, s)
			if err := s.Recover(t.Context()); err != nil {
				t.Error(err)
			}
			checkpointOf(t, s)
			return s
		},
	} {
		for what, lie := range map[string]func([]Part) []Part{"other contents": otherContents, "garbage": garbage} {
			t.Run(name+"/"+what, func(t *testing.T) {
				from, to, root, id := openFork(t)
				if _, err := receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, inContents(lie)); err != nil {
					t.Fatalf("the lie is found early: %v", err)
				}
				to = between(t, to, id)
				writeShared(t, root)
				restoreShared(t, to, root, checkpointOf(t, to))
				mine := checkpointOf(t, to)
				restoreShared(t, reopen(t, to), root, mine)
			})
		}
	}
}

// restoreShared checks that a checkpoint brings back what writeShared has written.
func restoreShared(t *testing.T, s *Store, root string, id ID) {
	t.Helper()
	for _, name := range []string{"shared", "large", "sparse"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Restore(t.Context(), id, RestoreOptions{}); err != nil {
		t.Error(err)
	}
	checkShared(t, root)
}

// What a transfer brings while others use the store takes the place of nothing that they have stored, or store.
func TestUnverifiedContentReplacesNothing(t *testing.T) {
	for what, lie := range map[string]func([]Part) []Part{"other contents": otherContents, "garbage": garbage} {
		t.Run(what, func(t *testing.T) {
			from, to, root, id := openFork(t)
			to.opts.Max = 100
			other, fromOther := openForForgery(t)
			writeShared(t, other)
			of := checkpointOf(t, fromOther)
			x, err := fromOther.Send(t.Context(), of)
			if err != nil {
				t.Fatal(err)
			}
			defer x.Close()
			r, err := to.Receive(t.Context(), of, x.Manifest(), ReceiveOptions{}) // which began before the lie
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			var before ID
			_, err = receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, inContents(func(p []Part) []Part {
				if before == "" {
					writeShared(t, root)
					before = checkpointOf(t, to)
				}
				return lie(p)
			}))
			if !errors.Is(err, ErrCorrupt) { // what is stored meanwhile is compared on arrival
				t.Errorf("the lie: %v", err)
			}
			restoreShared(t, to, root, before)
			restoreShared(t, to, root, checkpointOf(t, to))
			for wants := r.Wants(); len(wants) > 0; wants = r.Wants() {
				if err := x.Objects(t.Context(), wants, func(p []Part) error { return r.Take(t.Context(), p) }); err != nil {
					t.Fatal(err)
				}
			}
			if _, done, err := r.Commit(t.Context()); err != nil || !done {
				t.Fatal(done, err)
			}
			restoreShared(t, to, root, of)
			r.Close()
			restoreShared(t, reopen(t, to), root, before)
			restoreShared(t, reopen(t, to), root, of)
		})
	}
}

func checkpointOf(t *testing.T, s *Store) ID {
	t.Helper()
	c, err := s.Create(t.Context(), CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// reopen opens a store as another process does.
func reopen(t *testing.T, s *Store) *Store {
	t.Helper()
	again, err := Open(s.dir, s.root, s.opts)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// Once a tree is filled, its contents are stored as all others are, also for other processes and for those to whom they are sent.
func TestFilledTreeHasNothingUnverified(t *testing.T) {
	from, to, root, id := openFork(t)
	if err := fork(t, from, to, id, honest); err != nil {
		t.Fatal(err)
	}
	to = reopen(t, to)
	if left, err := os.ReadDir(filepath.Join(to.dir, unverifiedDir)); err != nil || len(left) > 0 {
		t.Errorf("%v is unverified, %v", left, err)
	}
	if !to.objects.Has(object.Sum(sharedText)) {
		t.Error("its content is not stored")
	}
	restoreShared(t, to, root, id)
	_, next, _, _ := openFork(t)
	if err := fork(t, to, next, id, honest); err != nil {
		t.Errorf("sending it on: %v", err)
	}
}

// What nobody has compared is not believed by those to whom it is sent.
func TestUnverifiedContentIsNotSentOn(t *testing.T) {
	from, to, _, id := openFork(t)
	if _, err := receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, inContents(otherContents)); err != nil {
		t.Fatal(err)
	}
	_, next, _, _ := openFork(t)
	if err := fork(t, to, next, id, honest); !errors.Is(err, ErrCorrupt) {
		t.Errorf("sending it on: %v", err)
	}
}

// A tree that cannot be filled is refused before anything is sent.
func TestTreeThatIsNotEmptyIsRefusedAtOnce(t *testing.T) {
	from, to, root, id := openFork(t)
	writeAll(t, root, map[string][]byte{"there": nil})
	called := false
	err := fork(t, from, to, id, func(p []Part) []Part { called = true; return p })
	if !errors.Is(err, unix.ENOTEMPTY) || called {
		t.Errorf("%v, sent %v", err, called)
	}
}
