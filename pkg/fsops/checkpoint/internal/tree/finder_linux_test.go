package tree

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// A Finder tells what there is at a path, and reads each directory once for many files in it: a tree with many hard links
// would take hours otherwise.
func TestFinderReadsADirectoryOnce(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(dir, "packs")
	for _, name := range []string{"large", "packs", "unverified", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	o := object.New(object.Dirs{
		Large: filepath.Join(dir, "large"), Packs: packed, Unverified: filepath.Join(dir, "unverified"), Temporary: filepath.Join(dir, "tmp"),
	})
	put := func(entries Entries) object.Hash {
		h, err := o.Put(entries.Encode(nil))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	done := o.Use()
	inner := put(Entries{{Name: "a", Kind: FIFO}, {Name: "b", Kind: HardLink, Target: "d/a"}, {Name: "c", Kind: Symlink, Target: "x"}})
	root := put(Entries{{Name: "d", Kind: Directory, Hash: inner}, {Name: "f", Kind: FIFO}})
	if err := o.Seal(); err != nil {
		t.Fatal(err)
	}
	done()
	defer o.Use()()
	var f Finder
	if e, err := f.LinkedFile(o, root, "d/a"); err != nil || e.Kind != FIFO {
		t.Fatalf("%+v, %v", e, err)
	}
	// A removal would not be noticed: the store has the pack open.
	files, err := filepath.Glob(filepath.Join(packed, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if err := errors.Join(os.Chmod(files[0], 0o600), os.Truncate(files[0], 0)); err != nil {
		t.Fatal(err)
	}
	if e, err := f.LinkedFile(o, root, "d/c"); err != nil || e.Target != "x" {
		t.Errorf("another file of the same directory: %+v, %v", e, err)
	}
	for path, want := range map[string]bool{"d": true, "d/b": true, "f": true, "d/x": false, "f/a": false, "x/a": false, "d/a/b": false} {
		if e, err := f.Find(o, root, path); e != nil != want || err != nil {
			t.Errorf("it has %s is %t, %v", path, e != nil, err)
		}
	}
	for _, path := range []string{"d", "d/b", "d/x", "f/a"} {
		if _, err := f.LinkedFile(o, root, path); !errors.Is(err, object.ErrCorrupt) {
			t.Errorf("the file of a hard link to %s: %v", path, err)
		}
	}
	if _, err := new(Finder).LinkedFile(o, object.Sum(nil), "d/a"); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("in a directory that is not there: %v", err)
	}
}
