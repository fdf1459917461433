package tree

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// A Finder finds entries by their paths. It has the directories of the last path in memory, so that it reads one once for
// all that is looked for in it. The zero value is ready.
type Finder struct {
	last []readDir // from the root on
}

type readDir struct {
	hash    object.Hash
	entries Entries
}

// LinkedFile returns the entry of the file that a hard link names by its path from the root. If there is none, the tree is
// damaged: [object.ErrCorrupt].
func (f *Finder) LinkedFile(o *object.Store, root object.Hash, path string) (*Entry, error) {
	e, err := f.Find(o, root, path)
	if err == nil && (e == nil || e.Kind == HardLink || e.Kind == Directory) {
		err = fmt.Errorf("%w: a hard link to %q, which is not there", object.ErrCorrupt, path)
	}
	return e, err
}

// Find returns the entry at a path from the root, nil if there is none.
func (f *Finder) Find(o *object.Store, h object.Hash, path string) (e *Entry, err error) {
	depth := 0
	for name := range strings.SplitSeq(path, "/") {
		if e != nil && e.Kind != Directory {
			return nil, nil
		}
		if e != nil {
			h = e.Hash
		}
		t, err := f.dir(o, h, depth)
		if err != nil {
			return nil, err
		}
		i, ok := slices.BinarySearchFunc(t, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		if !ok {
			return nil, nil
		}
		e, depth = &t[i], depth+1
	}
	return e, nil
}

// dir reads a directory, unless it is the last one at its depth.
func (f *Finder) dir(o *object.Store, h object.Hash, depth int) (Entries, error) {
	if depth < len(f.last) && f.last[depth].hash == h {
		return f.last[depth].entries, nil
	}
	t, err := Read(o, h)
	if err == nil {
		f.last = append(f.last[:depth], readDir{h, t})
	}
	return t, err
}
