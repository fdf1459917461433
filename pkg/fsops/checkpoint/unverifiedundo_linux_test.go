package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// otherLast changes the content that begins with "last".
func otherLast(parts []Part) []Part {
	for _, p := range parts {
		if bytes.HasPrefix(p.Data, []byte("last")) {
			p.Data[0] ^= 1
		}
	}
	return parts
}

// damagePacks changes a text in all packs.
func damagePacks(t *testing.T, s *Store, text string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(s.dir, packsDir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		content, err := os.ReadFile(pack)
		if err == nil {
			content = bytes.ReplaceAll(content, []byte(text), bytes.ToUpper([]byte(text)))
			err = errors.Join(os.Chmod(pack, 0o600), os.WriteFile(pack, content, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func idsOf(t *testing.T, s *Store) (ids []ID) {
	t.Helper()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		ids = append(ids, c.ID)
	}
	slices.Sort(ids)
	return ids
}

// A fork that fails leaves the tree empty, and the checkpoints that were there, also where there is no room for a copy of what it
// has made.
func TestFailedForkNeedsNoRoom(t *testing.T) {
	source, from := openForForgery(t)
	for i := range 8 {
		text := append([]byte("content"), noise(900<<10, byte(i))...)
		if i == 7 {
			text = append([]byte("last"), text...)
		}
		writeAll(t, source, map[string][]byte{fmt.Sprint("f", i): text})
	}
	id := checkpointOf(t, from)
	root, to := openForForgery(t)
	to.opts.Max, to.opts.Volume = 100, 20<<20
	for i := range byte(4) {
		writeAll(t, root, map[string][]byte{"x": noise(380<<10, 100+i)})
		checkpointOf(t, to)
	}
	if err := os.Remove(filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	before := idsOf(t, to)
	for range 2 {
		if err := fork(t, from, to, id, otherLast); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "undone") {
			t.Errorf("the lie: %v", err)
		}
		if left, err := os.ReadDir(root); err != nil || len(left) > 0 {
			t.Errorf("%d files are left, %v", len(left), err)
		}
		if now := idsOf(t, to); !slices.Equal(now, before) {
			t.Errorf("there were %d checkpoints, and are %d", len(before), len(now))
		}
	}
	if err := fork(t, from, to, id, honest); err != nil {
		t.Errorf("the truth: %v", err)
	}
}

func noise(n int, seed byte) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// Files that others make, or change, while a fork fails are in the tree afterwards, or in a checkpoint.
func TestFailedForkLosesNothingOfOthers(t *testing.T) {
	source, from := openForForgery(t)
	for d := range 30 {
		if err := os.Mkdir(filepath.Join(source, fmt.Sprintf("d%02d", d)), 0o755); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			writeAll(t, source, map[string][]byte{fmt.Sprintf("d%02d/f%d", d, i): noise(1<<10, byte(d*20+i))})
		}
	}
	writeAll(t, source, map[string][]byte{"d29/z": []byte("last")})
	id := checkpointOf(t, from)
	root, to := openForForgery(t)
	to.opts.Max = 100
	if err := os.Remove(filepath.Join(root, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, otherLast); err != nil {
		t.Fatal(err)
	}
	stop, written := make(chan struct{}), make(chan map[string]bool)
	go func() { written <- writeUntil(stop, root) }()
	_, err := to.Populate(t.Context(), id)
	close(stop)
	if !errors.Is(err, ErrCorrupt) {
		t.Errorf("the lie: %v", err)
	}
	lost := <-written
	t.Logf("others have written %d texts", len(lost))
	removeTexts(t, root, lost)
	for _, id := range idsOf(t, to) {
		if _, err := to.Restore(t.Context(), id, RestoreOptions{}); err != nil && !errors.Is(err, ErrIncomplete) {
			t.Error(err)
		}
		removeTexts(t, root, lost)
	}
	for text := range lost {
		t.Errorf("lost: %s", text)
	}
}

// writeUntil writes files of its own, and into those of a fork, once that has begun, and returns the texts.
func writeUntil(stop <-chan struct{}, root string) map[string]bool {
	written := map[string]bool{}
	for n := 0; n < 2000; {
		select {
		case <-stop:
			return written
		default:
		}
		if _, err := os.Stat(filepath.Join(root, "d00")); err != nil && n == 0 {
			continue
		}
		n++
		for _, name := range []string{fmt.Sprint("mine", n), fmt.Sprint("d03/mine", n), fmt.Sprintf("d02/f%d", n%20)} {
			text := fmt.Sprint(name, " by another one ", n)
			file, err := os.OpenFile(filepath.Join(root, name), os.O_WRONLY|os.O_TRUNC, 0)
			if errors.Is(err, os.ErrNotExist) && n%20 != 0 {
				file, err = os.Create(filepath.Join(root, name))
			}
			if err != nil {
				continue // there is no such directory yet, or any more
			}
			if _, err = file.WriteString(text); errors.Join(err, file.Close()) == nil {
				for old := range written { // what it has written over
					if bytes.HasPrefix([]byte(old), []byte(name+" ")) {
						delete(written, old)
					}
				}
				written[text] = true
			}
		}
	}
	return written
}

// removeTexts removes the texts that files of a tree have.
func removeTexts(t *testing.T, root string, texts map[string]bool) {
	t.Helper()
	for _, pattern := range []string{"*", "*/*"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			if text, err := os.ReadFile(name); err == nil {
				delete(texts, string(text))
			}
		}
	}
}

// A fork that fails harms neither another checkpoint that has arrived for the tree, nor one of the tree's own that is damaged.
func TestFailedForkHarmsNoOtherCheckpoint(t *testing.T) {
	from, to, root, id := openFork(t)
	to.opts.Max = 100
	writeAll(t, root, map[string][]byte{"sound": []byte("sound text"), "rotten": []byte("rotten text")})
	own := checkpointOf(t, to)
	for _, name := range []string{"sound", "rotten"} {
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := receiveAs(t, from, to, id, ReceiveOptions{Populates: true}, honest); err != nil {
		t.Fatal(err)
	}
	other, liar := openForForgery(t)
	writeAll(t, other, map[string][]byte{"b": []byte("other text")})
	if err := fork(t, liar, to, checkpointOf(t, liar), inContents(otherContents)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the lie: %v", err)
	}
	damagePacks(t, to, "rotten text")
	if _, err := to.Populate(t.Context(), own); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the damaged one: %v", err)
	}
	if _, err := to.Restore(t.Context(), own, RestoreOptions{Paths: []string{"sound"}}); err != nil {
		t.Errorf("what is not damaged of it: %v", err)
	}
	if _, err := to.Restore(t.Context(), id, RestoreOptions{}); err != nil {
		t.Errorf("the one that has arrived: %v", err)
	}
	checkShared(t, root)
}

// What an earlier transfer has left fails no later one, and neither does what is damaged in the store, for long.
func TestForkSucceedsAfterDamage(t *testing.T) {
	t.Run("of a transfer that was cut off", func(t *testing.T) {
		from, to, root, id := openFork(t)
		x, err := from.Send(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		r, err := to.Receive(t.Context(), id, x.Manifest(), ReceiveOptions{Populates: true})
		if err != nil {
			t.Fatal(err)
		}
		lie := inContents(otherContents)
		for wants := r.Wants(); len(wants) > 0; wants = r.Wants() {
			if err := x.Objects(t.Context(), wants, func(p []Part) error { return r.Take(t.Context(), lie(p)) }); err != nil {
				t.Fatal(err)
			}
		}
		r.Close()
		if err := fork(t, from, to, id, honest); err != nil {
			t.Error(err)
		}
		checkShared(t, root)
	})
	t.Run("of the store", func(t *testing.T) {
		source, from := openForForgery(t)
		root, to := openForForgery(t)
		for _, at := range []string{source, root} {
			writeAll(t, at, map[string][]byte{"shared": []byte("text of both")})
		}
		id := checkpointOf(t, from)
		checkpointOf(t, to)
		if err := errors.Join(os.Remove(filepath.Join(root, "shared")), os.Remove(filepath.Join(root, "x"))); err != nil {
			t.Fatal(err)
		}
		damagePacks(t, to, "text of both")
		if err := fork(t, from, to, id, honest); !errors.Is(err, ErrCorrupt) {
			t.Errorf("at first: %v", err)
		}
		if err := fork(t, from, to, id, honest); err != nil {
			t.Errorf("then: %v", err)
		}
	})
}

// Two transfers of one checkpoint for the tree fill it once, and leave nothing unverified.
func TestTwoTransfersForOneTree(t *testing.T) {
	from, to, root, id := openFork(t)
	x, err := from.Send(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var both []*Receiver
	for range 2 {
		r, err := to.Receive(t.Context(), id, x.Manifest(), ReceiveOptions{Populates: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		both = append(both, r)
	}
	for range 2 { // the directory, and then the contents
		for _, r := range both {
			if err := x.Objects(t.Context(), r.Wants(), func(p []Part) error { return r.Take(t.Context(), p) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, r := range both {
		if _, done, err := r.Commit(t.Context()); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	if _, err := to.Populate(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	checkShared(t, root)
	if left, err := os.ReadDir(filepath.Join(to.dir, unverifiedDir)); err != nil || len(left) > 0 {
		t.Errorf("%v is unverified, %v", left, err)
	}
}
