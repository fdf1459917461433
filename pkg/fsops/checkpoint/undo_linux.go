package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// undo brings back what was there before a restore that cannot go on. It returns why that is, and what it has not undone.
func (s *Store) undo(j *journal, why error) error {
	switch err := s.bringTo(noContext, j, why, j.Before); {
	case err == nil:
		return fmt.Errorf("it was undone: %w", why)
	case errors.Is(err, ErrIncomplete):
		return fmt.Errorf("%w; it was undone, but %v", why, err)
	default:
		return err
	}
}

// findOthers finds out what others have made in a fresh tree that is emptied again: all that is not as it was sent, and what
// had appeared before it could be made.
func (r *restorer) findOthers(ctx context.Context, sent ID, appeared map[Hash]bool) error {
	m, err := r.s.manifest(sent)
	if err != nil {
		return err
	}
	r.others = map[Hash]bool{}
	maps.Copy(r.others, appeared)
	return tree.Compare(ctx, r.objects, r.present.tree, m.root().Hash, func(path string, a, b *tree.Entry) error {
		isSent := a != nil && b != nil && (tree.SameContent(a, b) || a.Kind == tree.Directory && b.Kind == tree.Directory)
		if a != nil && !isSent {
			r.others[pathKey(path)] = true
		}
		return nil
	})
}

// isMade reports whether a fresh tree that is emptied again has at a path what was sent for it: the source has that, too.
func (r *restorer) isMade(p string) bool {
	if r.others == nil {
		return false
	}
	for ; p != "."; p = path.Dir(p) {
		if r.others[pathKey(p)] {
			return false
		}
	}
	return true
}
