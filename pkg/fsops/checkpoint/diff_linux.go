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
	// Before and After are the content of a regular file in the two states, if DiffOptions.Content asks for it, and nil
	// where there is none. NoContent says why both are missing, if it is not empty.
	Before, After []byte
	NoContent     string
}

// DiffOptions say what a comparison tells.
type DiffOptions struct {
	// Content is the size in bytes up to which it has the content of files that differ. It is a MiB at most. 0 is
	// no content.
	Content int64
}

// Diff yields what differs between checkpoint a and checkpoint b, or, if b is empty, what is in the tree now, but for what
// a excluded. Directories come before what is in them. An error ends the loop. Other calls of the store wait until the
// loop ends.
func (s *Store) Diff(ctx context.Context, a, b ID, opts DiffOptions) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		err := s.diff(ctx, a, b, opts, func(d Difference) error {
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

func (s *Store) diff(ctx context.Context, a, b ID, opts DiffOptions, visit func(Difference) error) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	from, err := s.manifest(a)
	if err != nil {
		return err
	}
	each := func(path string, ea, eb *entry) error {
		d := differenceOf(path, ea, eb)
		if opts.Content > 0 && d.How != Changed {
			s.addContent(&d, ea, eb, b == "", min(opts.Content, wholeSize))
		}
		return visit(d)
	}
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
	exclude, err := excluded(from.Exclude)
	if err != nil {
		return err
	}
	found, _, err := s.scan(ctx, now, exclude)
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
