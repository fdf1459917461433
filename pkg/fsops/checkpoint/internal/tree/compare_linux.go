package tree

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// ReadOrNone is Read, for which a zero hash is an empty directory.
func ReadOrNone(o *object.Store, h object.Hash) (Entries, error) {
	if h == (object.Hash{}) {
		return nil, nil
	}
	return Read(o, h)
}

// Both yields the entries of two directories by name, nil for what one lacks.
func Both(a, b Entries) iter.Seq2[*Entry, *Entry] {
	return func(yield func(*Entry, *Entry) bool) {
		for len(a) > 0 || len(b) > 0 {
			var ea, eb *Entry
			c := 0
			switch {
			case len(a) == 0:
				c = 1
			case len(b) == 0:
				c = -1
			default:
				c = strings.Compare(a[0].Name, b[0].Name)
			}
			if c <= 0 {
				ea, a = &a[0], a[1:]
			}
			if c >= 0 {
				eb, b = &b[0], b[1:]
			}
			if !yield(ea, eb) {
				return
			}
		}
	}
}

// NameOf returns the name that two entries have, one of which may be nil.
func NameOf(a, b *Entry) string {
	if a != nil {
		return a.Name
	}
	return b.Name
}

// Compare calls visit for what differs between two directories and below them: directories before what is in
// them. One of the entries is nil where there is nothing. Directories that no scan can have made, since they are too deep
// or too many, are [object.ErrCorrupt]: a few objects that name each other could have more of them than any disk.
func Compare(ctx context.Context, o *object.Store, a, b object.Hash, visit func(path string, a, b *Entry) error) error {
	c := &comparison{ctx: ctx, objects: o, visit: visit}
	return c.dirs("", a, b, 0)
}

// A comparison is one that is under way.
type comparison struct {
	ctx     context.Context
	objects *object.Store
	visit   func(path string, a, b *Entry) error
	entries int
}

func (c *comparison) dirs(path string, a, b object.Hash, depth int) error {
	if err := c.ctx.Err(); err != nil || a == b {
		return err
	}
	ta, err := ReadOrNone(c.objects, a)
	if err != nil {
		return err
	}
	tb, err := ReadOrNone(c.objects, b)
	if err != nil {
		return err
	}
	if c.entries += len(ta) + len(tb); c.entries > 2*MaxEntries || depth > MaxDepth {
		return fmt.Errorf("%w: it has more directories than a tree can have", object.ErrCorrupt)
	}
	for ea, eb := range Both(ta, tb) {
		if ea != nil && eb != nil && Same(ea, eb) {
			continue
		}
		if err := c.ctx.Err(); err != nil { // a visit may read much
			return err
		}
		p := Join(path, NameOf(ea, eb))
		if err := c.visit(p, ea, eb); err != nil {
			return err
		}
		if err := c.dirs(p, below(ea), below(eb), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// below returns the object of a directory, and a zero hash for what is none.
func below(e *Entry) object.Hash {
	if e == nil || e.Kind != Directory {
		return object.Hash{}
	}
	return e.Hash
}

// Same reports whether two entries of one name need no change.
func Same(a, b *Entry) bool {
	x, y := *a, *b
	x.Flags, y.Flags = x.Flags&Holes, y.Flags&Holes
	return x == y
}

// SameContent reports whether only what describes a file differs.
func SameContent(a, b *Entry) bool {
	return a.Kind == b.Kind && a.Hash == b.Hash && a.Size == b.Size && a.Flags&Holes == b.Flags&Holes && a.Target == b.Target && a.Kind != HardLink
}

// Join returns the path of a file from the root of the tree, whose own path is empty.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
