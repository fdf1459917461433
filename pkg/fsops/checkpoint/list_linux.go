package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
)

// List returns the checkpoints, the oldest first, without LeftOut and Moving. Manifests that are damaged are left out.
func (s *Store) List(ctx context.Context) ([]Checkpoint, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.list(ctx)
}

func (s *Store) list(ctx context.Context) ([]Checkpoint, error) {
	names, err := s.manifestNames()
	if err != nil {
		return nil, err
	}
	var list []Checkpoint
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		id, err := ParseID(name)
		if err != nil {
			continue
		}
		m, err := s.manifest(id)
		if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrNotFound) {
			continue
		}
		if err != nil { // it may pass, and what the checkpoint has must not go for it
			return nil, fmt.Errorf("reading checkpoint %.12s: %w", id, err)
		}
		c := m.describe(id)
		c.LeftOut, c.Moving = nil, nil
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Checkpoint) int {
		return cmp.Or(a.Time.Compare(b.Time), strings.Compare(string(a.ID), string(b.ID)))
	})
	return list, nil
}

// maxManifests bounds how many files are read among the manifests: many times what a store keeps.
const maxManifests = 1 << 16

// manifestNames returns the names of the manifests.
func (s *Store) manifestNames() ([]string, error) {
	return object.NamesIn(s.path(manifestsDir), maxManifests)
}
