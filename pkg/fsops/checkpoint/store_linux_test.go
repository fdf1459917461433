package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// newTree makes files in a new tree, and returns it with its store.
func newTree(t *testing.T, files map[string]string, opts checkpoint.Options) (root string, s *checkpoint.Store) {
	t.Helper()
	root = filepath.Join(t.TempDir(), "tree")
	writeFiles(t, root, files)
	s, err := checkpoint.Open(filepath.Join(filepath.Dir(root), "store"), root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return root, s
}

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

func create(t *testing.T, s *checkpoint.Store) checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// readFiles returns the regular files of a tree.
func readFiles(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// An object that is damaged or gone is found before anything is changed, be it in a pack or a file of its own.
func TestDamagedObjectChangesNothing(t *testing.T) {
	write := func(path string, change func(b []byte) []byte) error {
		b, err := os.ReadFile(path)
		return errors.Join(err, os.Chmod(path, 0o600), os.WriteFile(path, change(b), 0))
	}
	damages := map[string]func(path string) error{
		"gone":  os.Remove,
		"short": func(path string) error { return os.Truncate(path, 1) },
		"empty": func(path string) error { return os.Truncate(path, 0) },
		"other": func(path string) error { return write(path, func([]byte) []byte { return []byte("other") }) },
		"link":  func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path)) },
		"bit":   func(path string) error { return write(path, func(b []byte) []byte { b[0] ^= 1; return b }) },
		"list":  func(path string) error { return write(path, func(b []byte) []byte { b[len(b)-20] ^= 1; return b }) },
		"fifo":  func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"dir":   func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
	}
	for _, where := range []string{"packs", "objects"} {
		for name, damage := range damages {
			t.Run(where+"/"+name, func(t *testing.T) { damageObject(t, where, damage) })
		}
	}
}

// What somebody has read for a transfer that is still open is compared with its hash again before a restore.
func TestDamagedObjectChangesNothingDuringATransfer(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "one"}, checkpoint.Options{})
	c := create(t, s)
	x, err := s.Send(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	now := map[string]string{"x": "two", "y": "new"}
	writeFiles(t, root, now)
	later := create(t, s) // whose objects are known to be whole since
	writeFiles(t, root, map[string]string{"x": "three"})
	packs, err := filepath.Glob(filepath.Join(filepath.Dir(root), "store", "packs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pack := range packs {
		text, err := os.ReadFile(pack)
		if err == nil {
			err = errors.Join(os.Chmod(pack, 0o600), os.WriteFile(pack, bytes.Replace(text, []byte("two"), []byte("TWO"), 1), 0))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Restore(t.Context(), later.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("restoring: %v", err)
	}
	if got := readFiles(t, root)["x"]; got != "three" {
		t.Errorf("the file has %q", got)
	}
}

func damageObject(t *testing.T, where string, damage func(path string) error) {
	large := strings.Repeat("large", 1<<18)
	root, s := newTree(t, map[string]string{"x": "1", "large": large}, checkpoint.Options{})
	c := create(t, s)
	now := map[string]string{"x": "2", "y": "2", "large": large + "2"}
	writeFiles(t, root, now)
	objects, err := filepath.Glob(filepath.Join(filepath.Dir(root), "store", where, "*"))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%q, %v", objects, err)
	}
	if err := damage(objects[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("restoring: %v", err)
	}
	if diff := cmp.Diff(now, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	// What is there now can be kept, and come back.
	writeFiles(t, root, map[string]string{"x": "1", "large": large})
	again := create(t, s)
	writeFiles(t, root, now)
	if _, err := s.Restore(t.Context(), again.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]string{"x": "1", "large": large, "y": "2"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}

// A manifest that was changed is not the one of its ID.
func TestForgedManifestIsNoticed(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	c := create(t, s)
	path := filepath.Join(filepath.Dir(root), "store/manifests", string(c.ID))
	if err := os.WriteFile(path, []byte(`{"format":1}`), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("restoring: %v", err)
	}
	other := checkpoint.ID(strings.Repeat("0", 64))
	if _, err := s.Restore(t.Context(), other, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("restoring another one: %v", err)
	}
	for _, id := range []checkpoint.ID{"", "../x", checkpoint.ID(strings.Repeat("A", 64))} {
		if _, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{}); err == nil {
			t.Errorf("%q is an ID", id)
		}
	}
}

// Old checkpoints go, and what only they have; those that somebody has named go last, unlike automatic ones.
func TestOldestCheckpointsGoAndTheNamedOnesLast(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "first"}, checkpoint.Options{Max: 10})
	first, err := s.Create(t.Context(), checkpoint.CreateOptions{Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	var last checkpoint.Checkpoint
	for n := range 30 {
		writeFiles(t, root, map[string]string{"x": strings.Repeat("x", n)})
		if last, err = s.Create(t.Context(), checkpoint.CreateOptions{Name: fmt.Sprint("call ", n), Automatic: true}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) > 10 || list[0].ID != first.ID || list[len(list)-1].ID != last.ID {
		t.Errorf("there are %d, %v", len(list), err)
	}
	packs, err := filepath.Glob(filepath.Join(filepath.Dir(root), "store/packs/*"))
	if err != nil || len(packs) > len(list)+1 {
		t.Errorf("there are %d packs of %d checkpoints, %v", len(packs), len(list), err)
	}
	if _, err := s.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if got := readFiles(t, root)["x"]; got != "first" {
		t.Errorf("it has %q", got)
	}
}

// Of too many checkpoints with a name the oldest go, too.
func TestOldestNamedCheckpointsGoIfAllAreNamed(t *testing.T) {
	root, s := newTree(t, nil, checkpoint.Options{Max: 10})
	for n := range 12 {
		writeFiles(t, root, map[string]string{"x": fmt.Sprint(n)})
		if _, err := s.Create(t.Context(), checkpoint.CreateOptions{Name: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) > 10 || list[len(list)-1].Name != "11" {
		t.Fatalf("there are %+v, %v", list, err)
	}
	for i, c := range list {
		if want := fmt.Sprint(12 - len(list) + i); c.Name != want {
			t.Errorf("the checkpoint %q is there, not %q", c.Name, want)
		}
	}
}

// Many checkpoints of small changes make few packs.
func TestManyCheckpointsHaveFewPacks(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "first"}, checkpoint.Options{})
	first := create(t, s)
	const many = 110
	for n := range many {
		writeFiles(t, root, map[string]string{"x": fmt.Sprint(n)})
		create(t, s)
	}
	packs, err := os.ReadDir(filepath.Join(filepath.Dir(root), "store/packs"))
	if err != nil || len(packs) > many/2 {
		t.Errorf("there are %d packs, %v", len(packs), err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != many+1 {
		t.Fatalf("there are %d checkpoints, %v", len(list), err)
	}
	for want, c := range map[string]checkpoint.ID{"first": first.ID, "5": list[6].ID, "109": list[many].ID} {
		if _, err := s.Restore(t.Context(), c, checkpoint.RestoreOptions{}); err != nil {
			t.Error(err)
		}
		if got := readFiles(t, root)["x"]; got != want {
			t.Errorf("it has %q, not %q", got, want)
		}
	}
}

// The store of an agent that knew nothing of unverified objects opens on a full disk, so that checkpoints can be removed.
func TestStoreOfBeforeOpensOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "size=8m,nr_inodes=60")
	root, store := filepath.Join(dir, "tree"), filepath.Join(dir, "store")
	writeFiles(t, root, map[string]string{"x": "1"})
	s, err := checkpoint.Open(store, root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	if err := os.Remove(filepath.Join(store, "unverified")); err != nil {
		t.Fatal(err)
	}
	var full error
	for i := 0; i < 60 && full == nil; i++ {
		full = os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o644)
	}
	if !errors.Is(full, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", full)
	}
	if s, err = checkpoint.Open(store, root, checkpoint.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), c.ID); err != nil {
		t.Error(err)
	}
}

// On a full disk, the tree and the checkpoints that there are stay whole.
func TestFullDiskLosesNothing(t *testing.T) {
	dir := smallDisk(t, "size=8m")
	root := filepath.Join(dir, "tree")
	files := map[string]string{"x": strings.Repeat("x", 1<<20), "y": "1"}
	writeFiles(t, root, files)
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{Name: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 16<<20)
	for i := range big {
		big[i] = byte(i * i >> 3)
	}
	_ = os.WriteFile(filepath.Join(root, "big"), big, 0o600) // until nothing is left
	if _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, checkpoint.ErrNoRoom) {
		t.Errorf("creating one: %v", err)
	}
	_, err = s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if pathErr := new(fs.PathError); !errors.Is(err, checkpoint.ErrNoRoom) || errors.As(err, &pathErr) || !strings.Contains(err.Error(), `no checkpoint has "big"`) {
		t.Errorf("restoring where there is no room for what is there: %v", err)
	}
	if err := os.Remove(filepath.Join(root, "big")); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, map[string]string{"y": "2"})
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Errorf("restoring: %v", err)
	}
	if diff := cmp.Diff(files, readFiles(t, root)); diff != "" {
		t.Error("it is not what it was")
	}
}

// A pod is evicted when its volume holds more than it may, which no file system tells.
func TestStoreStaysWithinItsVolume(t *testing.T) {
	noise := make([]byte, 24<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	files := map[string]string{"a": string(noise[:8<<20]), "b": string(noise[8<<20 : 16<<20])}
	root, s := newTree(t, files, checkpoint.Options{Volume: 50 << 20})
	if c := create(t, s); c.Stored < 16<<20 {
		t.Fatalf("%+v: the test needs a tree that is not compressed", c)
	}
	writeFiles(t, root, map[string]string{"c": string(noise[16<<20:])})
	// 24 MiB of files and 16 of checkpoints are there: without the first checkpoint, a second has no room either.
	if c, err := s.Create(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, checkpoint.ErrNoRoom) {
		t.Errorf("a checkpoint beyond what the volume holds: %+v, %v", c, err)
	}
	if err := os.Remove(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	create(t, s)
}

// Diff tells what has changed, between two checkpoints and since one, and changes nothing.
func TestDiffTellsWhatHasChanged(t *testing.T) {
	root, s := newTree(t, map[string]string{"gone/x": "1", "mod": "1", "same": "1", "type": "1", "chmod": "1"}, checkpoint.Options{})
	a := create(t, s)
	for _, path := range []string{"gone", "type"} {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
	}
	writeFiles(t, root, map[string]string{"mod": "2", "new/x": "2", "type/x": "2"})
	if err := os.Chmod(filepath.Join(root, "chmod"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"gone": "removed", "gone/x": "removed", "mod": "modified", "new": "added", "new/x": "added",
		"type": "retyped", "type/x": "added", "chmod": "changed",
	}
	check := func(name string, b checkpoint.ID) {
		got := map[string]string{}
		for d, err := range s.Diff(t.Context(), a.ID, b, checkpoint.DiffOptions{Text: true}) {
			if err != nil {
				t.Fatal(err)
			}
			got[d.Path] = d.How
			if d.Path == "mod" && !strings.Contains(string(d.Diff), "-1\n") {
				t.Errorf("%s: %q, %s", name, d.Diff, d.NoDiff)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	check("now", "")
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("there are %d checkpoints, %v", len(list), err)
	}
	b := create(t, s)
	check("two", b.ID)
	if err := s.Remove(t.Context(), b.ID); err != nil {
		t.Fatal(err)
	}
	check("after the other is removed", "")
}
