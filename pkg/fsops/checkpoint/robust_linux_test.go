package checkpoint_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// random returns bytes that do not compress.
func random(size int) string {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return string(b)
}

// Whichever byte of a store changes, a restore fails and changes nothing, or brings back what was there. And what a
// checkpoint finds in the tree, it stores again.
func TestEveryDamagedByteIsNoticed(t *testing.T) {
	before := map[string]string{"a": "1", "d/words": strings.Repeat("words ", 100), "d/noise": random(300), "large": random(1<<20 + 1), "holes": strings.Repeat("\x00", 100_000) + "1"}
	root, s := newTree(t, before, checkpoint.Options{})
	if err := os.WriteFile(filepath.Join(root, "holes"), nil, 0); err != nil { // which makes the holes
		t.Fatal(err)
	}
	if file, err := os.OpenFile(filepath.Join(root, "holes"), os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	} else if _, err := file.WriteAt([]byte("1"), 100_000); errors.Join(err, file.Close()) != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	after := map[string]string{"a": "2", "d/words": "2", "d/noise": "2", "large": "2", "holes": "2"}
	writeFiles(t, root, after)
	create(t, s)
	step, most := 13, 100
	if isFull() {
		step, most = 1, 5000
	}
	tried, noticed := 0, 0
	store, pristine := filepath.Join(filepath.Dir(root), "store"), filepath.Join(filepath.Dir(root), "pristine")
	if err := os.Rename(store, pristine); err != nil {
		t.Fatal(err)
	}
	for _, path := range storeFiles(t, pristine) {
		good, err := os.ReadFile(filepath.Join(pristine, path))
		if err != nil {
			t.Fatal(err)
		}
		each := max(step, len(good)/most)
		for at := rand.N(each); at < len(good); at += each {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << rand.N(8)
			linkStore(t, pristine, store)
			overwrite(t, filepath.Join(store, path), bad)
			tried++
			// As the agent that comes next finds it.
			next, err := checkpoint.Open(store, root, checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = next.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
			want := before
			if err != nil {
				noticed++
				want = after
			}
			if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("%s, byte %d: %v", path, at, err)
			}
			if diff := cmp.Diff(want, readFiles(t, root)); diff != "" {
				t.Fatalf("%s, byte %d: restoring returned %v: %.1000s", path, at, err, diff)
			}
			writeFiles(t, root, after)
		}
	}
	if noticed < tried/2 {
		t.Errorf("%d of %d damaged bytes were noticed", noticed, tried)
	}
}

// linkStore makes a store that has the files of another one. What is in them never changes.
func linkStore(t *testing.T, from, to string) {
	t.Helper()
	err := os.RemoveAll(to)
	for _, path := range storeFiles(t, from) {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(to, path)), 0o700), os.Link(filepath.Join(from, path), filepath.Join(to, path)))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// storeFiles returns the files of a store.
func storeFiles(t *testing.T, store string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(path, store+"/"))
		}
		return err
	})
	if err != nil || len(files) < 4 {
		t.Fatalf("the store has %q, %v", files, err)
	}
	return files
}

// overwrite replaces a file.
func overwrite(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, text, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Restores that are asked for at once come one after the other.
func TestRestoresAtOnceEndInOneState(t *testing.T) {
	root, s := newTree(t, nil, checkpoint.Options{})
	states, ids := map[string]map[string]string{}, map[string]checkpoint.ID{}
	for _, name := range []string{"one", "other"} {
		states[name] = map[string]string{}
		for n := range 50 {
			states[name][fmt.Sprintf("d%d/%s%d", n%7, name[:1+n%2], n)] = name
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		writeFiles(t, root, states[name])
		ids[name] = create(t, s).ID
	}
	var changed atomic.Int64
	for range 5 {
		var all sync.WaitGroup
		for _, id := range ids {
			all.Go(func() {
				done, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{})
				if err != nil {
					t.Error(err)
				}
				changed.Add(done.Changed)
			})
			all.Go(func() {
				if _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		now := readFiles(t, root)
		if one, other := cmp.Diff(states["one"], now), cmp.Diff(states["other"], now); one != "" && other != "" {
			t.Fatalf("it is neither: %s", one)
		}
	}
	if changed.Load() == 0 {
		t.Error("no restore has changed anything")
	}
}

// Commands rename, remove and make directories while checkpoints are made and restored: no call fails, what keeps still is in
// each checkpoint, and what moves is in the tree or in a checkpoint, whatever its path.
func TestNothingIsLostWhileDirectoriesMove(t *testing.T) {
	still := map[string]string{}
	moving := map[string]string{}
	for n := range 40 {
		still[fmt.Sprintf("still/%d", n)] = fmt.Sprint("still ", n)
		moving[fmt.Sprintf("m%d/d/%d", n%5, n)] = fmt.Sprint("moves ", n)
	}
	root, s := newTree(t, still, checkpoint.Options{})
	writeFiles(t, root, moving)
	ctx, stop := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() { moveAbout(ctx, root) })
	first := create(t, s)
	var all []checkpoint.ID
	for range 10 {
		all = append(all, create(t, s).ID)
		done, err := s.Restore(t.Context(), first.ID, checkpoint.RestoreOptions{Paths: []string{"still", "m1"}})
		if errors.Is(err, fs.ErrNotExist) { // the one that moves was called otherwise then, and is so now
			continue
		}
		if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
			t.Error(err)
		}
		all = append(all, done.Before.ID)
	}
	stop()
	mover.Wait()
	seen := map[string]bool{}
	note := func() {
		for _, text := range readFiles(t, root) {
			seen[text] = true
		}
	}
	note()
	for _, id := range append(all, first.ID) {
		// What moved while a checkpoint was made, and is not in it, stays.
		if _, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{}); err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
			t.Fatal(err)
		}
		now := readFiles(t, root)
		for path, text := range still {
			if now[path] != text {
				t.Fatalf("a checkpoint has %q of %s", now[path], path)
			}
		}
		note()
	}
	for _, text := range moving {
		if !seen[text] {
			t.Errorf("%q is nowhere", text)
		}
	}
}

// moveAbout renames directories, and makes and removes others.
func moveAbout(ctx context.Context, root string) {
	for n := 0; ctx.Err() == nil; n++ {
		from, to := filepath.Join(root, fmt.Sprintf("m%d", rand.N(5))), filepath.Join(root, fmt.Sprintf("m%d", rand.N(5)))
		switch n % 4 {
		case 0:
			_ = os.Rename(from, filepath.Join(root, "aside"))
		case 1:
			_ = os.Rename(filepath.Join(root, "aside"), to)
		case 2:
			_ = os.Rename(filepath.Join(from, "d"), filepath.Join(to, fmt.Sprintf("d%d", rand.N(3))))
		case 3:
			short := filepath.Join(root, "short", "lived")
			_ = os.MkdirAll(short, 0o755)
			_ = os.RemoveAll(filepath.Dir(short))
		}
	}
}

// smallDisk returns a directory on a file system of its own.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("cannot mount tmpfs, for which this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill fills a disk until there is no room for a byte.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for block := []byte(random(1 << 16)); err == nil; {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// A restore that was cut off because the disk is full names what it cannot complete, and is completed once there is room.
func TestRecoveryOnAFullDiskNamesWhatItCannotDo(t *testing.T) {
	dir := smallDisk(t, "size=16m")
	root, store := filepath.Join(dir, "tree"), filepath.Join(dir, "store")
	before := map[string]string{"a": random(200_000), "b": "1", "c/d": random(200_000)}
	writeFiles(t, root, before)
	s, err := checkpoint.Open(store, root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	target := create(t, s)
	writeFiles(t, root, map[string]string{"a": "2", "b": "2", "new": "2"})
	if err := os.Remove(filepath.Join(root, "c/d")); err != nil {
		t.Fatal(err)
	}
	changed := create(t, s)
	journal := fmt.Sprintf(`{"target":%q,"before":%q}`, target.ID, changed.ID)
	if err := os.WriteFile(filepath.Join(store, "journal"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	fill(t, filepath.Join(dir, "full"))
	if err := s.Recover(t.Context()); !errors.Is(err, checkpoint.ErrIncomplete) || !errors.Is(err, unix.ENOSPC) && !strings.Contains(err.Error(), unix.ENOSPC.Error()) {
		t.Errorf("recovering: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "full")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), target.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, readFiles(t, root)); diff != "" {
		t.Error("it is not what it was")
	}
}

// A recovery stores what no checkpoint has. Without room for that, it stays.
func TestRecoveryKeepsWhatNoCheckpointHas(t *testing.T) {
	for name, full := range map[string]bool{"with room": false, "without": true} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "size=16m")
			root, store := filepath.Join(dir, "tree"), filepath.Join(dir, "store")
			writeFiles(t, root, map[string]string{"a": "1", "b": "1"})
			s, err := checkpoint.Open(store, root, checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			target := create(t, s)
			journal := fmt.Sprintf(`{"target":%q,"before":%q}`, target.ID, target.ID)
			if err := os.WriteFile(filepath.Join(store, "journal"), []byte(journal), 0o600); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"a": "a command's"})
			if full {
				fill(t, filepath.Join(dir, "full"))
			}
			err = s.Recover(t.Context())
			now := readFiles(t, root)
			if full && (!errors.Is(err, checkpoint.ErrIncomplete) || now["a"] != "a command's") {
				t.Errorf("it has %q, %v", now["a"], err)
			}
			if full {
				return
			}
			list, listErr := s.List(t.Context())
			if err != nil || now["a"] != "1" || listErr != nil || len(list) != 2 {
				t.Fatalf("it has %q and %d checkpoints, %v, %v", now["a"], len(list), err, listErr)
			}
			if _, err := s.Restore(t.Context(), list[1].ID, checkpoint.RestoreOptions{}); err != nil || readFiles(t, root)["a"] != "a command's" {
				t.Errorf("the command's is lost: %v", err)
			}
		})
	}
}

// Not only contents may be in no checkpoint: so may links, directories, FIFOs, and further files of a content.
func TestRecoveryKeepsAllThatNoCheckpointHas(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1", "b": "1"}, checkpoint.Options{})
	target := create(t, s)
	journal := fmt.Sprintf(`{"target":%q,"before":%q}`, target.ID, target.ID)
	if err := os.WriteFile(filepath.Join(filepath.Dir(root), "store", "journal"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	made := map[string]error{
		"link": os.Symlink("x", at("link")), "directory": os.Mkdir(at("directory"), 0o755), "fifo": unix.Mkfifo(at("fifo"), 0o644),
		"copy": os.WriteFile(at("copy"), []byte("1"), 0o644), "hard": os.Link(at("a"), at("hard")),
	}
	for name, err := range made {
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if err := s.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name := range made {
		if _, err := os.Lstat(at(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, err := s.Restore(t.Context(), list[1].ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	for name := range made {
		if _, err := os.Lstat(at(name)); err != nil {
			t.Errorf("%s is lost: %v", name, err)
		}
	}
}

// A restore that has no room for a file names it, and restores the others.
func TestRestoreNamesWhatItHasNoRoomFor(t *testing.T) {
	dir := smallDisk(t, "size=16m")
	root := filepath.Join(dir, "tree")
	before := map[string]string{"a": random(4 << 20), "b": "1", "c/d": "1"}
	writeFiles(t, root, before)
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	after := map[string]string{"a": "2", "b": "2", "c/d": "2"}
	writeFiles(t, root, after)
	full := filepath.Join(dir, "full")
	fill(t, full)
	info, err := os.Stat(full)
	if err == nil {
		err = os.Truncate(full, info.Size()-1<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if !errors.Is(err, checkpoint.ErrIncomplete) || len(done.Kept) != 1 || done.Kept[0].Path != "a" || done.Kept[0].Why != unix.ENOSPC.Error() {
		t.Errorf("restoring: %+v, %v", done.Kept, err)
	}
	if diff := cmp.Diff(map[string]string{"a": "2", "b": "1", "c/d": "1"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	if err := os.Remove(full); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, readFiles(t, root)); diff != "" {
		t.Error("it is not what it was")
	}
}

// The tree may be a file system of its own, and the store on another one.
func TestTreeMayBeTheRootOfAMount(t *testing.T) {
	root := smallDisk(t, "size=16m")
	before := map[string]string{"a": "1", "c/d": "1"}
	writeFiles(t, root, before)
	s, err := checkpoint.Open(t.TempDir(), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	writeFiles(t, root, map[string]string{"a": "2", "new": "2"})
	if err := os.RemoveAll(filepath.Join(root, "c")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}
