package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// Populate makes an empty tree what it was in a checkpoint, with what Options.Protected names. For a tree that
// Populate has filled before, whatever has changed since, the error is EEXIST; for another one that is not empty, ENOTEMPTY.
// All else is as for Restore, with two exceptions: Restored.Before is of nothing, and damaged content may show only after
// some files were made. Populate removes those then. It does not wait for the disk: as with any copy, a crash of the
// machine may lose some of it.
func (s *Store) Populate(ctx context.Context, id ID) (Restored, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Restored{}, err
	}
	defer unlock()
	done, err := s.populate(ctx, id)
	if err != nil {
		err = fmt.Errorf("restoring checkpoint %.12s: %w", id, err)
	}
	return done, err
}

func (s *Store) populate(ctx context.Context, id ID) (Restored, error) {
	if err := s.checkUnpopulated(); err != nil {
		return Restored{}, err
	}
	done, err := s.restore(ctx, id, nil, true)
	if errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnfinished) {
		err = errors.Join(err, s.dropDamaged(id))
	}
	if done.Before.ID != "" && done.Before.ID != id && !errors.Is(err, ErrUnfinished) {
		err = errors.Join(err, s.remove(manifestFile(done.Before.ID)))
		done.Before = Checkpoint{}
	}
	return done, err
}

// dropDamaged removes what was sent to populate the tree and is not what it should be, and a checkpoint that needs it. All can be
// sent again then.
func (s *Store) dropDamaged(id ID) error {
	if err := s.remove(indexFile); err != nil { // what it says is there is not to be believed any more
		return err
	}
	damaged, err := s.objects.SettleUnverified()
	if err != nil || len(damaged) == 0 {
		return err
	}
	m, err := s.manifest(id)
	if err != nil {
		return err
	}
	needs := objectSet{}
	if err := s.reach(noContext, m.root().Hash, needs); err != nil {
		return err
	}
	for h := range needs {
		if damaged[h] {
			return s.remove(manifestFile(id))
		}
	}
	return nil
}

// checkUnpopulated returns an error unless Populate may begin.
func (s *Store) checkUnpopulated() error {
	if s.isPopulated() {
		return &os.PathError{Op: "populate", Path: s.root, Err: unix.EEXIST}
	}
	return s.checkEmpty()
}

// isPopulated reports whether Populate has made the tree what it was in a checkpoint. That is noted before its journal ends.
func (s *Store) isPopulated() bool {
	_, err := os.Lstat(s.path(populatedFile))
	return err == nil
}

// checkFoundNothing returns an error if the scan has found anything in a tree that was empty: somebody has made that meanwhile.
func (r *restorer) checkFoundNothing() error {
	found, err := tree.Read(r.objects, r.present.tree)
	if err == nil && len(found) > 0 {
		err = &os.PathError{Op: "populate", Path: r.s.root, Err: unix.ENOTEMPTY}
	}
	return err
}

// checkEmpty returns an error if there is anything in the tree but the store.
func (s *Store) checkEmpty() error {
	dir, err := os.Open(s.root)
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(2)
	if err != nil && err != io.EOF {
		return err
	}
	for _, name := range names {
		var st unix.Statx_t
		if err := statx(int(dir.Fd()), name, &st); err != nil || (inodeID{deviceOf(&st), st.Ino}) != s.id() {
			return &os.PathError{Op: "populate", Path: s.root, Err: unix.ENOTEMPTY}
		}
	}
	return nil
}
