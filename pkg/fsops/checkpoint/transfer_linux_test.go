package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// transfer sends a checkpoint from one store to another, and returns the objects that were sent.
func transfer(ctx context.Context, from, to *checkpoint.Store, id checkpoint.ID, opts checkpoint.ReceiveOptions) (c checkpoint.Checkpoint, objects int64, err error) {
	x, err := from.Send(ctx, id)
	if err != nil {
		return c, 0, err
	}
	defer x.Close()
	r, err := to.Receive(ctx, id, x.Manifest(), opts)
	if err != nil {
		return c, 0, err
	}
	defer r.Close()
	take := func(parts []checkpoint.Part) error { return r.Take(ctx, parts) }
	if opts.All {
		if err := x.All(ctx, take); err != nil {
			return c, 0, err
		}
	}
	for wants := r.Wants(); len(wants) > 0; wants = r.Wants() {
		if err := x.Objects(ctx, wants, take); err != nil {
			return c, 0, err
		}
	}
	objects = r.Objects
	c, done, err := r.Commit(ctx)
	if err == nil && !done {
		err = errors.New("something went meanwhile")
	}
	return c, objects, err
}

// A checkpoint that another store has received is the same there, in content and metadata, and is not sent twice.
func TestCheckpointSentElsewhereIsTheSame(t *testing.T) {
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all %v", all), func(t *testing.T) {
			files := map[string]string{"large": string(noise(3 << 20)), "text": string(make([]byte, 200<<10)), "empty": "", "a\xff\n": "odd"}
			for i := range 300 {
				files[fmt.Sprintf("d%d/e/f%d", i%20, i)] = fmt.Sprint(i % 200)
			}
			root, from := newTree(t, files, checkpoint.Options{})
			if err := errors.Join(os.Link(filepath.Join(root, "text"), filepath.Join(root, "d1", "hard")), os.Symlink("/etc", filepath.Join(root, "sym")), os.Chmod(filepath.Join(root, "empty"), 0o4750)); err != nil {
				t.Fatal(err)
			}
			c := create(t, from)
			other, to := newTree(t, map[string]string{"x": ""}, checkpoint.Options{Protected: func(string) error { return errors.New("protected") }})
			if err := os.Remove(filepath.Join(other, "x")); err != nil {
				t.Fatal(err)
			}
			got, objects, err := transfer(t.Context(), from, to, c.ID, checkpoint.ReceiveOptions{All: all})
			if err != nil || got.ID != c.ID || got.Files != c.Files || objects == 0 {
				t.Fatalf("%+v, %d objects, %v", got, objects, err)
			}
			if _, again, err := transfer(t.Context(), from, to, c.ID, checkpoint.ReceiveOptions{}); err != nil || again != 0 {
				t.Errorf("sent again: %d objects, %v", again, err)
			}
			done, err := to.Populate(t.Context(), c.ID)
			if err != nil || len(done.Kept) > 0 {
				t.Fatalf("%+v, %v", done, err)
			}
			if diff := cmp.Diff(lookAt(t, root), lookAt(t, other)); diff != "" {
				t.Error(diff)
			}
			if list, err := to.List(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("%+v, %v", list, err)
			}
			if err := os.WriteFile(filepath.Join(other, "later"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, id := range []checkpoint.ID{c.ID, create(t, to).ID} {
				if _, err := to.Populate(t.Context(), id); !errors.Is(err, unix.EEXIST) {
					t.Errorf("a second time: %v", err)
				}
			}
			if _, err := from.Populate(t.Context(), c.ID); !errors.Is(err, unix.ENOTEMPTY) {
				t.Errorf("a tree that was never populated: %v", err)
			}
		})
	}
}

// Trees with whatever a tree can have arrive as they are.
func TestRandomTreesArriveElsewhere(t *testing.T) {
	for seed := range uint64(20) {
		from, to := newRandomTree(t, seed), newRandomTree(t, seed)
		defer os.RemoveAll(filepath.Dir(from.root))
		defer os.RemoveAll(filepath.Dir(to.root))
		for range 100 {
			from.alter()
		}
		c := create(t, from.store)
		if _, _, err := transfer(t.Context(), from.store, to.store, c.ID, checkpoint.ReceiveOptions{All: seed%2 == 0, Populates: seed%4 < 2}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if done, err := to.store.Populate(t.Context(), c.ID); err != nil {
			t.Fatalf("seed %d: %+v, %v", seed, done, err)
		}
		if diff := cmp.Diff(lookAt(t, from.root), lookAt(t, to.root)); diff != "" {
			t.Fatalf("seed %d: (-from +to)\n%s", seed, diff)
		}
	}
}

// lookAt describes everything in a tree, whatever its path is.
func lookAt(t *testing.T, root string) map[string]string {
	t.Helper()
	what := (&randomTree{t: t, root: root}).look()
	for path, text := range what {
		what[path] = strings.ReplaceAll(text, root, "")
	}
	return what
}

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}

// A checkpoint from elsewhere knows nothing of the files that were here when it arrived. A restore of it leaves those alone,
// though their directories have changed since.
func TestRestoreOfOneFromElsewhereLeavesOlderFiles(t *testing.T) {
	_, from := newTree(t, map[string]string{"a": "1"}, checkpoint.Options{})
	c := create(t, from)
	old := map[string]string{"old": "2", "d/old": "2", "d/e/old": "2"}
	root, s := newTree(t, old, checkpoint.Options{})
	if err := os.MkdirAll(filepath.Join(root, "d/empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := transfer(t.Context(), from, s, c.ID, checkpoint.ReceiveOptions{}); err != nil {
		t.Fatal(err)
	}
	passTick(t, root)
	writeFiles(t, root, map[string]string{"new": "3", "d/new": "3", "d/empty/new": "3", "made/new": "3"})
	restore := func(kept ...string) {
		t.Helper()
		done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
		var got []string
		for _, l := range done.Kept {
			got = append(got, l.Path)
		}
		slices.Sort(got)
		if diff := cmp.Diff(kept, got); !errors.Is(err, checkpoint.ErrIncomplete) || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	restore("d", "d/e", "d/e/old", "d/empty", "d/old", "old")
	want := map[string]string{"a": "1", "old": "2", "d/old": "2", "d/e/old": "2"}
	if diff := cmp.Diff(want, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	for name, there := range map[string]bool{"d/empty": true, "made": false} {
		if _, err := os.Lstat(filepath.Join(root, name)); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Nobody can tell when it arrived, and so what is newer.
	if err := os.WriteFile(filepath.Join(filepath.Dir(root), "store/arrivals"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, map[string]string{"new": "3"})
	restore("d", "d/e", "d/e/old", "d/empty", "d/old", "new", "old")
	// The next arrival mends that, and it is of all that are there.
	_, another := newTree(t, map[string]string{"a": "2"}, checkpoint.Options{})
	if _, _, err := transfer(t.Context(), another, s, create(t, another).ID, checkpoint.ReceiveOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	restore("d", "d/e", "d/e/old", "d/empty", "d/old", "new", "old")
	passTick(t, root)
	writeFiles(t, root, map[string]string{"new": "4"})
	restore("d", "d/e", "d/e/old", "d/empty", "d/old", "old")
}

// A checkpoint of this tree that comes back is still one of this tree.
func TestCheckpointThatComesBackIsOfThisTree(t *testing.T) {
	before := map[string]string{"a": "1"}
	root, s := newTree(t, before, checkpoint.Options{})
	_, other := newTree(t, nil, checkpoint.Options{})
	c := create(t, s)
	writeFiles(t, root, map[string]string{"d/new": "2"})
	for _, way := range [][2]*checkpoint.Store{{s, other}, {other, s}} {
		if _, _, err := transfer(t.Context(), way[0], way[1], c.ID, checkpoint.ReceiveOptions{All: true}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}

// passTick waits until the files that are made from now on have a later time than those that are there.
func passTick(t *testing.T, root string) {
	t.Helper()
	probe := filepath.Join(filepath.Dir(root), "probe")
	for began := time.Now(); ; {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(probe); err != nil || info.ModTime().After(began) {
			return
		}
		if time.Since(began) > time.Minute {
			t.Fatal("the clock of the files stands still")
		}
	}
}

// What a checkpoint excludes is bounded by its characters, wherever the checkpoint goes.
func TestExcludedNamesOfAnyScriptArriveElsewhere(t *testing.T) {
	_, from := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	var exclude []string
	for n := range 300 {
		exclude = append(exclude, fmt.Sprint(n, strings.Repeat("é", 200)))
	}
	c, err := from.Create(t.Context(), checkpoint.CreateOptions{Exclude: exclude})
	if err != nil {
		t.Fatal(err)
	}
	_, to := newTree(t, nil, checkpoint.Options{})
	if _, _, err := transfer(t.Context(), from, to, c.ID, checkpoint.ReceiveOptions{}); err != nil {
		t.Error(err)
	}
}
