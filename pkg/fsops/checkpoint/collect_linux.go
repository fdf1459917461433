package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// Remove drops a checkpoint, and what only it has. If it is one of the two of a restore that is neither complete nor undone,
// the files stay as they are, and nothing is said of that restore any more.
func (s *Store) Remove(ctx context.Context, id ID) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := s.manifest(id); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if err := errors.Join(s.decide(id), s.remove(manifestFile(id))); err != nil {
		return err
	}
	return s.collect(ctx)
}

// limit drops the oldest checkpoints if there are too many, some more than it must, so that it is
// not needed again soon. It never drops those that were just used.
func (s *Store) limit(ctx context.Context, used ...ID) error {
	list, err := s.list(ctx)
	if err != nil || len(list) <= s.opts.Max {
		return err
	}
	needed, err := s.needed()
	if err != nil {
		return err
	}
	keep := max(1, s.opts.Max-s.opts.Max/10)
	for _, c := range oldestFirst(list) {
		if len(list) <= keep {
			break
		}
		if slices.Contains(used, c.ID) || slices.Contains(needed, c.ID) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.remove(manifestFile(c.ID)); err != nil {
			return err
		}
		list = list[1:]
	}
	return s.collect(ctx)
}

// oldestFirst returns checkpoints in the order in which they are dropped.
func oldestFirst(list []Checkpoint) (order []Checkpoint) {
	for _, named := range []bool{false, true} {
		for _, c := range list {
			if c.stays() == named {
				order = append(order, c)
			}
		}
	}
	return order
}

// stays reports whether somebody has named a checkpoint, to keep it.
func (c *Checkpoint) stays() bool { return c.Name != "" && !c.Automatic }

// dropOldest drops the older half of the checkpoints without a name, at least one, and reports whether there was any.
// Those with a name are not dropped for a lack of room: a tree that is too large for the disk would take them all.
// Neither are those that are needed.
func (s *Store) dropOldest(ctx context.Context, needed ...ID) (bool, error) {
	list, err := s.list(ctx)
	if err != nil {
		return false, err
	}
	undecided, err := s.needed()
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(c Checkpoint) bool {
		return c.stays() || slices.Contains(undecided, c.ID) || slices.Contains(needed, c.ID)
	})
	if len(list) == 0 {
		return false, nil
	}
	for _, c := range list[:(len(list)+1)/2] {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if err := s.remove(manifestFile(c.ID)); err != nil {
			return false, err
		}
	}
	return true, s.collect(ctx)
}

// collect removes the objects that no checkpoint has, and counts the others.
func (s *Store) collect(ctx context.Context) error {
	reached, err := s.reached(ctx)
	if err != nil {
		return err
	}
	if err := s.forgetIndex(reached); err != nil {
		return err
	}
	return s.objects.Sweep(ctx, func(h Hash) bool {
		_, ok := reached[h]
		return ok
	})
}

// forgetIndex removes the index if it knows a file by an object that goes.
func (s *Store) forgetIndex(reached objectSet) error {
	x, _ := s.readIndex()
	for i := range x.records {
		if _, ok := reached[x.records[i].hash]; !ok {
			return s.remove(indexFile)
		}
	}
	return nil
}

// reached returns the objects of all checkpoints. What is below a damaged directory counts for nothing: nobody
// can get at it.
func (s *Store) reached(ctx context.Context) (objectSet, error) {
	list, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	reached := objectSet{}
	for _, c := range list {
		m, err := s.manifest(c.ID)
		if err == nil {
			err = s.reach(ctx, m.root().Hash, reached)
		}
		if err != nil {
			return nil, err
		}
	}
	return reached, s.reachUnderway(ctx, reached)
}

// An objectSet has objects, and whether each is a directory all below which it has, too. The content of a file may be
// that of a directory's object.
type objectSet map[Hash]bool

func (s objectSet) add(h Hash) {
	if _, ok := s[h]; !ok {
		s[h] = false
	}
}

// maxReached bounds what a collection has in memory: a gigabyte, as a scan.
const maxReached = 16 << 20

// reach adds a directory and all below it. Directories that somebody has forged may be of any depth.
func (s *Store) reach(ctx context.Context, root Hash, reached objectSet) error {
	for todo := []Hash{root}; len(todo) > 0; {
		h := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if reached[h] {
			continue
		}
		reached[h] = true
		t, err := tree.Read(s.objects, h)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return err
		}
		for i := range t {
			switch t[i].Kind {
			case tree.Regular:
				reached.add(t[i].Hash)
			case tree.Directory:
				todo = append(todo, t[i].Hash)
			}
		}
		if len(reached)+len(todo) > maxReached {
			return fmt.Errorf("%w: the store has more than %d objects", ErrTooLarge, maxReached)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
