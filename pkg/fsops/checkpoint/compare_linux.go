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

// find returns the entry that a directory's object has for a path.
func (o *objects) find(h Hash, path string) (*entry, error) {
	first, rest, deeper := strings.Cut(path, "/")
	t, err := o.tree(h)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(t, func(e entry) bool { return e.name == first })
	switch {
	case i < 0 || t[i].kind == hardLink, deeper && t[i].kind != directory:
		return nil, fmt.Errorf("%w: a hard link to %q, which is not there", ErrCorrupt, path)
	case deeper:
		return o.find(t[i].hash, rest)
	}
	return &t[i], nil
}

func nameOf(a, b *entry) string {
	if a != nil {
		return a.name
	}
	return b.name
}

// compare calls visit for what differs between two directories and below them: directories before what is in
// them. One of the entries is nil where there is nothing.
func (o *objects) compare(ctx context.Context, path string, a, b Hash, visit func(path string, a, b *entry) error) error {
	if err := ctx.Err(); err != nil || a == b {
		return err
	}
	ta, err := o.treeOrNone(a)
	if err != nil {
		return err
	}
	tb, err := o.treeOrNone(b)
	if err != nil {
		return err
	}
	for ea, eb := range both(ta, tb) {
		if ea != nil && eb != nil && same(ea, eb) {
			continue
		}
		p := join(path, nameOf(ea, eb))
		if err := visit(p, ea, eb); err != nil {
			return err
		}
		var ha, hb Hash
		if ea != nil && ea.kind == directory {
			ha = ea.hash
		}
		if eb != nil && eb.kind == directory {
			hb = eb.hash
		}
		if err := o.compare(ctx, p, ha, hb, visit); err != nil {
			return err
		}
	}
	return nil
}
