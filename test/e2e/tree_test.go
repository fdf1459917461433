package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// describe returns the entries of a local tree, each with its path, mode, time and
// content.
func describe(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			tree[rel] = fmt.Sprint(info.Mode(), info.ModTime().UTC(), sha256.Sum256(data))
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			tree[rel] = fmt.Sprint("link to ", target, err)
		default:
			tree[rel] = fmt.Sprint(info.Mode(), info.ModTime().UTC())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestTreePushedAndPulledIsIdentical(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		source := t.TempDir()
		for name, mode := range map[string]fs.FileMode{"a": 0o644, "run.sh": 0o755, "dir/secret": 0o600, "dir/sub/with space": 0o444, "new\nline \xff": 0o640} {
			path := filepath.Join(source, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("content\x00of "+name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Time{}, time.Unix(1_600_000_000, 123_456_789)); err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range []error{
			os.Symlink("a", filepath.Join(source, "link")),
			os.Symlink("../a", filepath.Join(source, "dir", "up")),
			os.Symlink("nowhere", filepath.Join(source, "dangling")),
			os.Mkdir(filepath.Join(source, "empty"), 0o700),
			os.Chtimes(filepath.Join(source, "empty"), time.Time{}, time.Unix(1_500_000_000, 0)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		pushed, err := s.Push(t.Context(), source, "tree", podapi.TransferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(t.TempDir(), "back")
		pulled, err := s.Pull(t.Context(), "tree", target, podapi.TransferOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pushed.Bytes != pulled.Bytes || pulled.Entries == 0 {
			t.Errorf("pushed %+v, pulled %+v", pushed, pulled)
		}
		if diff := cmp.Diff(describe(t, source), describe(t, target)); diff != "" {
			t.Errorf("the tree changed on the way:\n%s", diff)
		}
	})
}

func TestPullOfMissingTree(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		if _, err := s.Pull(t.Context(), "none", filepath.Join(t.TempDir(), "x"), podapi.TransferOptions{}); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
}

func TestArchiveThatEscapesIsRefused(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		file := func(name string) []*tar.Header {
			return []*tar.Header{{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}}
		}
		for what, entries := range map[string][]*tar.Header{
			"a path upwards":      file("../escaped"),
			"a path in and out":   file("in/../../escaped"),
			"an absolute path":    file(s.Workdir + "/escaped"),
			"a link upwards":      {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "..", Mode: 0o777}, file("l/escaped")[0]},
			"an absolute link":    {{Name: "l", Typeflag: tar.TypeSymlink, Linkname: s.Workdir, Mode: 0o777}, file("l/escaped")[0]},
			"a link over a link":  {{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b/..", Mode: 0o777}, {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "..", Mode: 0o777}, file("a/escaped")[0]},
			"a hard link upwards": {{Name: "h", Typeflag: tar.TypeLink, Linkname: "../outside", Mode: 0o644}},
		} {
			harness.Put(t, s, "outside", "untouched")
			if err := s.RemoveAll(t.Context(), "target"); err != nil {
				t.Fatal(err)
			}
			var archive bytes.Buffer
			w := tar.NewWriter(&archive)
			for _, h := range entries {
				if err := w.WriteHeader(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := s.PushTar(t.Context(), &archive, "target", fsops.ExtractOptions{}); !errors.Is(err, fsops.ErrUnsafeArchive) {
				t.Errorf("%s: %v", what, err)
			}
			for _, name := range harness.Names(t, s, ".") {
				if name != "outside" && name != "target" {
					t.Errorf("%s: wrote %q outside", what, name)
				}
			}
			if got := harness.Get(t, s, "outside"); got != "untouched" {
				t.Errorf("%s: the file outside has %q", what, got)
			}
		}
	})
}

func TestWatchSeesWhatHappens(t *testing.T) {
	overEach(t, func(t *testing.T, s *launcher.Sandbox) {
		seen := map[string]bool{}
		ready := func() { harness.Put(t, s, "new/dir/file", "x") }
		for e, err := range s.Watch(t.Context(), ".", fsops.WatchOptions{Recursive: true, Ready: ready}) {
			if err != nil {
				t.Fatal(err)
			}
			seen[filepath.Clean(e.Path)] = true
			if seen["new"] && seen["new/dir"] && seen["new/dir/file"] {
				return
			}
		}
		t.Errorf("the watch ended with %v", seen)
	})
}
