package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

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
var errEnough = errors.New("its caller has left the loop")

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
	var unreadable map[string]string
	each := func(path string, ea, eb *tree.Entry) error {
		if eb == nil && isIn(unreadable, path) {
			return nil
		}
		d := differenceOf(path, ea, eb)
		if opts.Text && d.How != Changed {
			s.addText(&d, ea, eb, b == "")
		}
		return visit(d)
	}
	objects, root, leftOut, done, err := s.farSide(ctx, from, b)
	if err != nil {
		return err
	}
	defer done()
	unreadable = unreadableIn(leftOut)
	if err := tree.Compare(ctx, objects, from.root().Hash, root, each); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(unreadable)) {
		if err := visit(Difference{Path: path, How: Unreadable, NoDiff: unreadable[path]}); err != nil {
			return err
		}
	}
	return nil
}

// farSide returns what a checkpoint is compared with: another one, or the tree, of which nothing is stored.
func (s *Store) farSide(ctx context.Context, from *manifest, b ID) (objects *object.Store, root Hash, left []leftOut, done func(), err error) {
	if b != "" {
		to, err := s.manifest(b)
		if err != nil {
			return nil, root, nil, nil, err
		}
		return s.objects, to.root().Hash, to.LeftOut, func() {}, nil
	}
	exclude, err := omit(from.Exclude, "")
	if err != nil {
		return nil, root, nil, nil, err
	}
	objects, found, done, err := s.look(ctx, exclude)
	if err != nil {
		return nil, root, nil, nil, err
	}
	return objects, found.tree, found.leftOut, done, nil
}

// unreadableIn returns the paths of what was left out because it could not be read, and why. Sockets, devices and mounts are no
// state.
func unreadableIn(list []leftOut) map[string]string {
	unreadable := map[string]string{}
	for _, l := range list {
		if l.Why != whyNoFile && l.Why != whyMounted {
			unreadable[string(l.Path)] = l.Why
		}
	}
	return unreadable
}

// isIn reports whether a path, or a directory that it is in, is one of these.
func isIn(paths map[string]string, path string) bool {
	for at := len(path); at > 0; at = strings.LastIndexByte(path[:at], '/') {
		if _, ok := paths[path[:at]]; ok {
			return true
		}
	}
	return false
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
