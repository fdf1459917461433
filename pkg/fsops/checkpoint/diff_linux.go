package checkpoint

import (
	"context"
	"fmt"
	"iter"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

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
	each := func(path string, ea, eb *tree.Entry) error {
		d := differenceOf(path, ea, eb)
		if opts.Text && d.How != Changed {
			s.addText(&d, ea, eb, b == "")
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
	return tree.Compare(ctx, s.objects, from.root().Hash, to.root().Hash, each)
}

// diffNow compares a checkpoint with the tree. It stores nothing.
func (s *Store) diffNow(ctx context.Context, from *manifest, each func(string, *tree.Entry, *tree.Entry) error) error {
	exclude, err := omit(from.Exclude, "")
	if err != nil {
		return err
	}
	now, found, done, err := s.look(ctx, exclude)
	if err != nil {
		return err
	}
	defer done()
	return tree.Compare(ctx, now, from.root().Hash, found.tree, each)
}

// look scans the tree and stores nothing. The objects that it returns are those of the store, and besides them the
// directories that it found. They are of use until done is called.
func (s *Store) look(ctx context.Context, exclude omitted) (now *object.Store, f *found, done func(), err error) {
	now = s.objects.Overlay()
	done = now.Use()
	if f, err = s.scan(ctx, now, exclude); err != nil {
		done()
	}
	return now, f, done, err
}

func differenceOf(path string, a, b *tree.Entry) Difference {
	d := Difference{Path: path, How: Modified}
	switch {
	case a == nil:
		d.How = Added
	case b == nil:
		d.How, b = Removed, a
	case a.Kind != b.Kind:
		d.How = Retyped
		if isData(a) && isData(b) {
			d.How = Changed
		}
	case a.Kind == tree.Directory || tree.SameContent(a, b):
		d.How = Changed
	}
	d.Dir = b.Kind == tree.Directory
	return d
}

// isData reports whether an entry is a file or a name of one.
func isData(e *tree.Entry) bool { return e.Kind == tree.Regular || e.Kind == tree.HardLink }
