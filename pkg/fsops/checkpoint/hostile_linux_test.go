package checkpoint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
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

// What waits for somebody to read or write it, or is larger than any disk, holds nothing up.
func TestStoreThatWasTamperedWithHoldsNothingUp(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	c := create(t, s)
	store := filepath.Join(filepath.Dir(root), "store")
	if err := errors.Join(os.Remove(filepath.Join(store, "index")), unix.Mkfifo(filepath.Join(store, "index"), 0o600)); err != nil {
		t.Fatal(err)
	}
	create(t, s)
	if err := errors.Join(os.WriteFile(filepath.Join(store, "index"), nil, 0o600), os.Truncate(filepath.Join(store, "index"), 1<<43)); err != nil {
		t.Fatal(err)
	}
	create(t, s)
	if err := unix.Mkfifo(filepath.Join(store, "journal"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := checkpoint.Open(store, root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Recover(t.Context()); !errors.Is(err, checkpoint.ErrCorrupt) || next.Interrupted() {
		t.Errorf("recovering what no journal tells: %v", err)
	}
	if _, err := next.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"x"}}); err != nil {
		t.Errorf("restoring a path: %v", err)
	}
}

// A restore that finds no room does not make some by dropping what it is to restore. It names what it would lose.
func TestRestoreWithoutRoomKeepsItsCheckpoint(t *testing.T) {
	dir := smallDisk(t, "size=16m")
	root := filepath.Join(dir, "tree")
	writeFiles(t, root, map[string]string{"x": "1", "same": "1"})
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	writeFiles(t, root, map[string]string{"x": "2", "junk": string(noise(9 << 20))})
	_, err = s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if want := `no checkpoint has "junk", the first of 2 files`; !errors.Is(err, checkpoint.ErrNoRoom) || !strings.Contains(err.Error(), want) {
		t.Fatalf("restoring: %v, which does not say: %s", err, want)
	}
	if err := os.Remove(filepath.Join(root, "junk")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"x": "1", "same": "1"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}

// Checkpoints without a name make room for what is there before a restore, but for those that the restore is between.
func TestRestoreDropsOthersForRoom(t *testing.T) {
	for name, recovers := range map[string]bool{"restoring": false, "recovering": true} {
		t.Run(name, func(t *testing.T) {
			dir := smallDisk(t, "size=16m")
			root, store, files := filepath.Join(dir, "tree"), filepath.Join(dir, "store"), map[string]string{"x": "1"}
			writeFiles(t, root, files)
			s, err := checkpoint.Open(store, root, checkpoint.Options{})
			if err != nil {
				t.Fatal(err)
			}
			target := create(t, s)
			writeFiles(t, root, map[string]string{"x": "2"})
			before := create(t, s)
			// Half of the disk: there is no room for the present, unless another checkpoint goes.
			writeFiles(t, root, map[string]string{"junk": string(noise(5 << 20))})
			other := create(t, s)
			writeFiles(t, root, map[string]string{"junk": random(4<<20 + 1<<19)})
			present := readFiles(t, root)
			if recovers {
				journal := fmt.Sprintf(`{"target":%q,"before":%q}`, target.ID, before.ID)
				if err := os.WriteFile(filepath.Join(store, "journal"), []byte(journal), 0o600); err != nil {
					t.Fatal(err)
				}
				err = s.Recover(t.Context())
			} else {
				_, err = s.Restore(t.Context(), target.ID, checkpoint.RestoreOptions{})
			}
			if diff := cmp.Diff(files, readFiles(t, root)); err != nil || diff != "" {
				t.Fatalf("%v, %.200s", err, diff)
			}
			list, err := s.List(t.Context())
			if err != nil || len(list) < 2 || list[0].ID != target.ID {
				t.Fatalf("there are %+v, %v", list, err)
			}
			if slices.ContainsFunc(list, func(c checkpoint.Checkpoint) bool { return c.ID == other.ID }) {
				t.Error("the other one is still there")
			}
			if there := slices.ContainsFunc(list, func(c checkpoint.Checkpoint) bool { return c.ID == before.ID }); recovers && !there {
				t.Error("the state that the recovery may have to go back to is gone")
			}
			if _, err := s.Restore(t.Context(), list[len(list)-1].ID, checkpoint.RestoreOptions{}); err != nil || !maps.Equal(readFiles(t, root), present) {
				t.Errorf("what was there before is lost: %v", err)
			}
		})
	}
}

// Hard links lead a restore neither to protected files nor out of the paths that it is for.
func TestHardLinksLeadARestoreNowhere(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1", "b": "1"}, checkpoint.Options{
		Protected: func(path string) error {
			if path == "safe" {
				return fs.ErrPermission
			}
			return nil
		},
	})
	for from, to := range map[string]string{"a": "safe", "b": "z"} {
		if err := os.Link(filepath.Join(root, from), filepath.Join(root, to)); err != nil {
			t.Fatal(err)
		}
	}
	c := create(t, s)
	for _, path := range []string{"a", "safe", "b", "z"} {
		if err := os.Remove(filepath.Join(root, path)); err != nil {
			t.Fatal(err)
		}
		writeFiles(t, root, map[string]string{path: "new " + path})
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"z"}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "new a", "safe": "new safe", "b": "new b", "z": "1"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrIncomplete) {
		t.Errorf("restoring: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "safe": "new safe", "b": "1", "z": "1"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}

// What is mounted in the tree after a checkpoint is not the tree's.
func TestRestoreLeavesMountsAlone(t *testing.T) {
	root, s := newTree(t, map[string]string{"m/x": "1"}, checkpoint.Options{})
	c := create(t, s)
	at := filepath.Join(root, "m")
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, "mode=700"); err != nil {
		t.Fatalf("cannot mount tmpfs, for which this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, 0); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrIncomplete) {
		t.Errorf("restoring: %v", err)
	}
	info, err := os.Stat(at)
	if err != nil || info.Mode().Perm() != 0o700 || len(readFiles(t, root)) > 0 {
		t.Errorf("the mount has changed: %v, %v", info.Mode(), err)
	}
}

// What is written to a file after the checkpoint of before stays, even if its size and time are what they were.
func TestRestoreKeepsWhatIsWrittenInPlaceMeanwhile(t *testing.T) {
	var meanwhile func(path string)
	root, s := newTree(t, map[string]string{"changed": "1"}, checkpoint.Options{Protected: func(path string) error {
		meanwhile(path)
		return nil
	}})
	c := create(t, s)
	writeFiles(t, root, map[string]string{"changed": "2", "new": "2"})
	past := time.Now().Add(-time.Hour)
	for _, name := range []string{"changed", "new"} {
		if err := os.Chtimes(filepath.Join(root, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	// Only then the scan believes their times.
	changed := time.Now()
	for time.Since(changed) < 50*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
	meanwhile = func(path string) {
		path = filepath.Join(root, path)
		if err := errors.Join(os.WriteFile(path, []byte("3"), 0o644), os.Chtimes(path, past, past)); err != nil {
			t.Error(err)
		}
	}
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if !errors.Is(err, checkpoint.ErrIncomplete) || len(done.Kept) != 2 {
		t.Errorf("restoring: %+v, %v", done.Kept, err)
	}
	if diff := cmp.Diff(map[string]string{"changed": "3", "new": "3"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}
