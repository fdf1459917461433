package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// A few directories that name each other can be more than any disk holds. Comparing them has a bound.
func TestForgedNumbersAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := object.New(object.Dirs{Large: dir, Packs: dir, Unverified: filepath.Join(dir, "unverified"), Temporary: filepath.Join(dir, "tmp")})
	defer o.Use()()
	var h object.Hash
	var entries Entries
	for range 61 { // 2⁶⁰ directories
		var err error
		if h, err = o.Put(entries.Encode(nil)); err != nil {
			t.Fatal(err)
		}
		entries = Entries{{Name: "a", Kind: Directory, Mode: 0o755, Hash: h}, {Name: "b", Kind: Directory, Mode: 0o755, Hash: h}}
	}
	c := &comparison{ctx: t.Context(), objects: o, visit: func(string, *Entry, *Entry) error { return nil }, entries: 2*MaxEntries - 10_000}
	if err := c.dirs("", object.Hash{}, h, 0); !errors.Is(err, object.ErrCorrupt) {
		t.Errorf("comparing: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Compare(ended, o, object.Hash{}, h, c.visit); !errors.Is(err, context.Canceled) {
		t.Errorf("comparing without an end: %v", err)
	}
}
