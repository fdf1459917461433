package checkpoint

import (
	"context"
	"fmt"
	"iter"
)

// How a path differs between two states.
const (
	Added    = "added"
	Removed  = "removed"
	Modified = "modified" // its content, or what a link names
	Retyped  = "retyped"  // such as a directory in the place of a file
	Changed  = "changed"  // its mode, owner or time alone
)

// A Difference is a path that differs between two states.
type Difference struct {
	Path string
	How  string // one of the above
	Dir  bool   // whether it is a directory, after the change if it is there then
}

// Diff yields what differs between checkpoint a and checkpoint b, or, if b is empty, what is in the tree now. Directories
// come before what is in them. An error ends the loop.
func (s *Store) Diff(ctx context.Context, a, b ID) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		err := s.diff(ctx, a, b, func(d Difference) error {
			if !yield(d, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(Difference{}, fmt.Errorf("comparing with checkpoint %.12s: %w", a, err))
		}
	}
}

// errEnough ends a loop that its caller has left.
var errEnough = fmt.Errorf("enough")

func (s *Store) diff(ctx context.Context, a, b ID, visit func(Difference) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	from, err := s.manifest(a)
	if err != nil {
		return err
	}
	each := func(path string, ea, eb *entry) error { return visit(differenceOf(path, ea, eb)) }
	if b == "" {
		return s.diffNow(ctx, from, each)
	}
	to, err := s.manifest(b)
	if err != nil {
		return err
	}
	return s.objects.compare(ctx, "", from.root().hash, to.root().hash, each)
}

// diffNow compares a checkpoint with the tree. It stores nothing.
func (s *Store) diffNow(ctx context.Context, from *manifest, each func(string, *entry, *entry) error) error {
	now := &objects{dir: s.objects.dir, tmp: s.objects.tmp, hashOnly: true, trees: map[Hash][]byte{}}
	found, _, err := s.scan(ctx, now)
	if err != nil {
		return err
	}
	return now.compare(ctx, "", from.root().hash, found.tree, each)
}

func differenceOf(path string, a, b *entry) Difference {
	d := Difference{Path: path, How: Modified}
	switch {
	case a == nil:
		d.How = Added
	case b == nil:
		d.How, b = Removed, a
	case a.kind != b.kind:
		d.How = Retyped
		if isData(a) && isData(b) {
			d.How = Changed
		}
	case a.kind == directory || sameContent(a, b):
		d.How = Changed
	}
	d.Dir = b.kind == directory
	return d
}

// isData reports whether an entry is a file or a name of one.
func isData(e *entry) bool { return e.kind == regular || e.kind == hardLink }
