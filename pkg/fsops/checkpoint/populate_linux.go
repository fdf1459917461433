package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Populate makes an empty tree what it was in a checkpoint, with what Options.Protected names. A tree that is not empty
// is EEXIST if Populate has made it of this checkpoint, whatever has changed since, and else ENOTEMPTY. Otherwise it is as Restore, but for Restored.Before, which is of nothing, and it does not wait for the disk:
// as with any copy, a crash of the machine may lose some of it.
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
	if err := s.mustBeEmpty(); err != nil {
		if errors.Is(err, unix.ENOTEMPTY) && s.isPopulatedFrom(id) {
			err = &os.PathError{Op: "populate", Path: s.root, Err: unix.EEXIST}
		}
		return Restored{}, err
	}
	if err := s.writeFile(populatedFile, []byte(id)); err != nil { // now: Recover may have to complete it
		return Restored{}, err
	}
	open := *s // nothing is there to be protected
	open.opts.Protected, open.fresh = nil, true
	done, err := open.restore(ctx, id, nil)
	if done.Before.ID != "" && done.Before.ID != id {
		err = errors.Join(err, s.remove(manifestFile(done.Before.ID)))
		done.Before = Checkpoint{}
	}
	if err != nil {
		err = errors.Join(err, s.remove(populatedFile))
	}
	return done, err
}

// isPopulatedFrom reports whether the latest Populate was of a checkpoint, and made all of it.
func (s *Store) isPopulatedFrom(id ID) bool {
	text, err := s.readFile(populatedFile, int64(len(id)))
	return err == nil && ID(text) == id
}

// mustBeEmpty returns an error if there is anything in the tree but the store.
func (s *Store) mustBeEmpty() error {
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
