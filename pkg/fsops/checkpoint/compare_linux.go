package checkpoint

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// noContext is for what is not to be interrupted.
var noContext = context.Background()

// treeOrNone reads the object of a directory; a zero hash is an empty one.
func (o *objects) treeOrNone(h Hash) (tree, error) {
	if h == (Hash{}) {
		return nil, nil
	}
	return o.tree(h)
}

// both yields the entries of two directories by name, nil for what one lacks.
func both(a, b tree) iter.Seq2[*entry, *entry] {
	return func(yield func(*entry, *entry) bool) {
		for len(a) > 0 || len(b) > 0 {
			var ea, eb *entry
			c := 0
			switch {
			case len(a) == 0:
				c = 1
			case len(b) == 0:
				c = -1
			default:
				c = strings.Compare(a[0].name, b[0].name)
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

// find returns the entry of the file that a hard link names, below a directory's object.
func (o *objects) find(h Hash, path string) (*entry, error) {
	for at := path; ; {
		first, rest, deeper := strings.Cut(at, "/")
		t, err := o.tree(h)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(t, func(e entry) bool { return e.name == first })
		switch {
		case i < 0 || deeper && t[i].kind != directory || !deeper && (t[i].kind == hardLink || t[i].kind == directory):
			return nil, fmt.Errorf("%w: a hard link to %q, which is not there", ErrCorrupt, path)
		case !deeper:
			return &t[i], nil
		}
		h, at = t[i].hash, rest
	}
}

func nameOf(a, b *entry) string {
	if a != nil {
		return a.name
	}
	return b.name
}

// compare calls visit for what differs between two directories and below them: directories before what is in
// them. One of the entries is nil where there is nothing. Directories that no scan can have made, since they are too deep
// or too many, are [ErrCorrupt]: a few objects that name each other could have more of them than any disk.
func (o *objects) compare(ctx context.Context, a, b Hash, visit func(path string, a, b *entry) error) error {
	c := &comparison{ctx: ctx, objects: o, visit: visit}
	return c.dirs("", a, b, 0)
}

// A comparison is one that is under way.
type comparison struct {
	ctx     context.Context
	objects *objects
	visit   func(path string, a, b *entry) error
	entries int
}

func (c *comparison) dirs(path string, a, b Hash, depth int) error {
	if err := c.ctx.Err(); err != nil || a == b {
		return err
	}
	ta, err := c.objects.treeOrNone(a)
	if err != nil {
		return err
	}
	tb, err := c.objects.treeOrNone(b)
	if err != nil {
		return err
	}
	if c.entries += len(ta) + len(tb); c.entries > 2*maxEntries || depth > maxDepth {
		return fmt.Errorf("%w: it has more directories than a tree can have", ErrCorrupt)
	}
	for ea, eb := range both(ta, tb) {
		if ea != nil && eb != nil && same(ea, eb) {
			continue
		}
		if err := c.ctx.Err(); err != nil { // a visit may read much
			return err
		}
		p := join(path, nameOf(ea, eb))
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
func below(e *entry) Hash {
	if e == nil || e.kind != directory {
		return Hash{}
	}
	return e.hash
}
