package checkpoint_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A path that neither the checkpoint nor the tree has is a mistake: nothing changes, and no checkpoint is made for it. One that
// either has is none.
func TestRestoreOfAPathThatIsNowhere(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1", "d/x": "1"}, checkpoint.Options{})
	if err := os.Symlink("d", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	writeFiles(t, root, map[string]string{"a": "2", "new": "2"})
	for _, path := range []string{"typo", "a/x", "d/typo", "link/x", "typo/x"} {
		_, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"a", path}})
		if named, ok := errors.AsType[*fs.PathError](err); !ok || named.Path != path || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("restoring %q: %v", path, err)
		}
	}
	if list, err := s.List(t.Context()); err != nil || len(list) != 1 || readFiles(t, root)["a"] != "2" {
		t.Errorf("there are %d checkpoints, and a has %q, %v", len(list), readFiles(t, root)["a"], err)
	}
	for _, path := range []string{"new", "a", "d/x", "link"} {
		if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{path}}); err != nil {
			t.Error(err)
		}
	}
}

// A path to restore that the checkpoint excludes stays, and is named.
func TestRestoreOfAnExcludedPathNamesIt(t *testing.T) {
	root, s := newTree(t, map[string]string{"a": "1", "cache/x": "1"}, checkpoint.Options{})
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{Exclude: []string{"cache"}})
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, map[string]string{"a": "2", "cache/x": "2"})
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"a", "cache/x"}})
	want := []checkpoint.LeftOut{{Path: "cache/x", Why: "the checkpoint leaves it out"}}
	if !errors.Is(err, checkpoint.ErrIncomplete) || !slices.Equal(done.Kept, want) {
		t.Errorf("it kept %q, %v", done.Kept, err)
	}
	if files := readFiles(t, root); files["a"] != "1" || files["cache/x"] != "2" {
		t.Errorf("it has %q", files)
	}
}
