package checkpoint_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

func TestIgnoredFilesComeBackUnlessExcluded(t *testing.T) {
	before := map[string]string{".gitignore": "build\n*.log\n", "build/out": "1", "run.log": "1", "a": "1"}
	for name, test := range map[string]struct {
		exclude, back []string
	}{
		"all":      {nil, []string{"build/out", "run.log", "a"}},
		"excluded": {[]string{"*.log"}, []string{"build/out", "a"}},
	} {
		root, s := newTree(t, before, checkpoint.Options{})
		c, err := s.Create(t.Context(), checkpoint.CreateOptions{Exclude: test.exclude})
		if err != nil {
			t.Fatal(err)
		}
		after := map[string]string{"build/out": "2", "run.log": "2", "a": "2"}
		writeFiles(t, root, after)
		if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		want := maps.Clone(after)
		for _, path := range append(test.back, ".gitignore") {
			want[path] = before[path]
		}
		if diff := cmp.Diff(want, readFiles(t, root)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A restore of some paths leaves the others alone, and its checkpoint of before brings all back.
func TestRestoreOfPathsLeavesOthersAlone(t *testing.T) {
	before := map[string]string{"a/x": "1", "a/y": "1", "b/x": "1", "c": "1"}
	root, s := newTree(t, before, checkpoint.Options{})
	c := create(t, s)
	after := map[string]string{"a/x": "2", "b/x": "2", "b/new": "2", "c": "2"}
	writeFiles(t, root, after)
	if err := os.RemoveAll(filepath.Join(root, "a")); err != nil {
		t.Fatal(err)
	}
	changed := readFiles(t, root)
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"a/x", "b"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a/x": "1", "b/x": "1", "c": "2"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Restore(t.Context(), done.Before.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(changed, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{"../tree/c", "/c", "a/../../c"} {
		if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{path}}); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// Names of one file that are restored without its first name belong to that, or to one file of their own if it is another one now.
func TestRestoreOfPathsKeepsHardLinks(t *testing.T) {
	for _, changed := range []bool{false, true} {
		root, s := newTree(t, map[string]string{"a": "1", "d/x": "1"}, checkpoint.Options{})
		names := []string{"a", "d/b", "d/c"}
		for _, name := range names[1:] {
			if err := os.Link(filepath.Join(root, "a"), filepath.Join(root, name)); err != nil {
				t.Fatal(err)
			}
		}
		c := create(t, s)
		if err := os.RemoveAll(filepath.Join(root, "d")); err != nil {
			t.Fatal(err)
		}
		if changed {
			writeFiles(t, root, map[string]string{"a": "2"})
		}
		if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{Paths: []string{"d"}}); err != nil {
			t.Fatal(err)
		}
		var infos []fs.FileInfo
		for _, name := range names {
			info, err := os.Lstat(filepath.Join(root, name))
			if err != nil {
				t.Fatal(err)
			}
			infos = append(infos, info)
		}
		if !os.SameFile(infos[1], infos[2]) || os.SameFile(infos[0], infos[1]) == changed {
			t.Errorf("with another first file %t, they are %v", changed, infos)
		}
		if got := readFiles(t, root)["d/b"]; got != "1" {
			t.Errorf("it has %q", got)
		}
	}
}

// What a checkpoint cannot have seen stays: files that are excluded or protected, sockets, and what is mounted.
func TestRestoreRemovesOnlyWhatIsNewer(t *testing.T) {
	root, s := newTree(t, map[string]string{"kept.log": "1", "x": "1", "safe/x": "1"}, checkpoint.Options{
		Protected: func(path string) error {
			if path == "safe/x" {
				return fs.ErrPermission
			}
			return nil
		},
	})
	socket := filepath.Join(root, "socket")
	if err := unix.Mknod(socket, unix.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}
	c, err := s.Create(t.Context(), checkpoint.CreateOptions{Exclude: []string{"*.log"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.LeftOut) != 1 || c.LeftOut[0].Path != "socket" {
		t.Errorf("it left out %v", c.LeftOut)
	}
	writeFiles(t, root, map[string]string{"kept.log": "2", "new.log": "2", "x": "2", "new": "2", "safe/x": "2"})
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if !errors.Is(err, checkpoint.ErrIncomplete) || len(done.Kept) != 1 || done.Kept[0].Path != "safe/x" {
		t.Errorf("restoring: %+v, %v", done.Kept, err)
	}
	if diff := cmp.Diff(map[string]string{"kept.log": "2", "new.log": "2", "x": "1", "safe/x": "2"}, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Error(err)
	}
}

// Files in a directory that is moved keep their times. They go back with it, also if it has taken the place of another one.
func TestDirectoryInThePlaceOfAnotherOneGoesBack(t *testing.T) {
	was := map[string]string{"from/x": "1", "from/sub/y": "2", "to/sub/z": "3"}
	root, s := newTree(t, was, checkpoint.Options{})
	c := create(t, s)
	to := filepath.Join(root, "to")
	if err := errors.Join(os.RemoveAll(to), os.Rename(filepath.Join(root, "from"), to)); err != nil {
		t.Fatal(err)
	}
	writeFiles(t, root, map[string]string{"to/new": "4"})
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(was, readFiles(t, root)); diff != "" {
		t.Error(diff)
	}
}
