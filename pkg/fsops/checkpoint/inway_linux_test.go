package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// putInWay puts a directory that is not empty where the store has a file, or would have one.
func putInWay(t *testing.T, store, name string) {
	t.Helper()
	path := filepath.Join(store, name)
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Join(path, "deeper", "deepest"), 0o755)); err != nil {
		t.Fatal(err)
	}
}

// A directory that has the name of one of the store's files keeps nobody from making, restoring, receiving or removing
// checkpoints.
func TestDirectoryInAFilesPlaceStopsNothing(t *testing.T) {
	for _, name := range []string{"journal", "unfinished", "index", "arrivals", "populated"} {
		t.Run(name, func(t *testing.T) {
			root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
			_, other := newTree(t, map[string]string{"y": "1"}, checkpoint.Options{})
			store, received := filepath.Join(filepath.Dir(root), "store"), create(t, other)
			one := create(t, s)
			for what, do := range map[string]func() error{
				"creating":   func() error { _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); return err },
				"restoring":  func() error { _, err := s.Restore(t.Context(), one.ID, checkpoint.RestoreOptions{}); return err },
				"recovering": func() error { return recoverNext(t, store, root) },
				"receiving": func() error {
					_, _, err := transfer(t.Context(), other, s, received.ID, checkpoint.ReceiveOptions{})
					return err
				},
				"removing": func() error { return s.Remove(t.Context(), create(t, s).ID) },
			} {
				writeFiles(t, root, map[string]string{"x": what})
				putInWay(t, store, name)
				if err := do(); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			if left, err := os.ReadDir(filepath.Join(store, "tmp")); err != nil || len(left) > 0 {
				t.Errorf("%v is left, %v", left, err)
			}
		})
	}
}

// recoverNext does what the next process does at its start. It says nothing of a journal that is none.
func recoverNext(t *testing.T, store, root string) error {
	t.Helper()
	next, err := checkpoint.Open(store, root, checkpoint.Options{})
	if err != nil {
		return err
	}
	if err := next.Recover(t.Context()); err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		return err
	}
	if next.Interrupted() {
		return errors.New("the journal is still there")
	}
	return nil
}

// A damaged manifest may be replaced by the one that it was, and be removed, whatever has its name.
func TestDirectoryInAManifestsPlaceStopsNothing(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	_, other := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	store, c := filepath.Join(filepath.Dir(root), "store"), create(t, other)
	manifest := filepath.Join("manifests", string(c.ID))
	putInWay(t, store, manifest)
	if _, _, err := transfer(t.Context(), other, s, c.ID, checkpoint.ReceiveOptions{}); err != nil {
		t.Errorf("receiving: %v", err)
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || list[0].ID != c.ID {
		t.Errorf("there are %+v, %v", list, err)
	}
	putInWay(t, store, manifest)
	if err := s.Remove(t.Context(), c.ID); err != nil {
		t.Errorf("removing: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(store, manifest)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// A restore whose end cannot be noted is not undone, since all is restored, and no later process carries it out again.
func TestRestoreWhoseEndCannotBeNotedIsDoneOnce(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	store, c := filepath.Join(filepath.Dir(root), "store"), create(t, s)
	writeFiles(t, root, map[string]string{"x": "2"})
	unfinished := filepath.Join(store, "unfinished")
	if err := os.Mkdir(unfinished, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "tmpfs", unfinished, "tmpfs", "") // what is mounted can be neither removed nor renamed
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrUnfinished) {
		t.Errorf("restoring: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"x": "1"}, readFiles(t, root)); diff != "" {
		t.Errorf("it is not restored: %s", diff)
	}
	writeFiles(t, root, map[string]string{"x": "work"})
	if err := recoverNext(t, store, root); err != nil {
		t.Errorf("recovering: %v", err)
	}
	if diff := cmp.Diff(map[string]string{"x": "work"}, readFiles(t, root)); diff != "" {
		t.Errorf("a later process has changed what was made meanwhile: %s", diff)
	}
}
