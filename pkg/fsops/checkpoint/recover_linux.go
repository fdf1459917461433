package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A restore goes through these states, in each of which its process may be killed:
//
//	without a journal   the tree is what commands have made of it. The checkpoint of before may be in the store already
//	with a journal      the tree is anywhere between Before and Target, both of which are in the store. A file that is on
//	                    its way to its name, or from it, is beside it, under a staged name
//	without a journal   the tree is the target, but for what the restore has named
//
// Who finds a journal brings the tree to Target, or to Before if that cannot be. It leaves the journal as it is until
// then, so both stay what they were, however often it is killed.

// A journal says that a restore is under way.
type journal struct {
	Target ID       `json:"target"`
	Before ID       `json:"before"`
	Paths  [][]byte `json:"paths,omitempty"`
}

func (s *Store) writeJournal(j journal, paths []string) error {
	for _, p := range paths {
		j.Paths = append(j.Paths, []byte(p))
	}
	text, err := json.Marshal(j)
	if err == nil {
		err = s.writeFile(journalFile, text)
	}
	return err
}

// readJournal returns the journal, nil if there is none.
func (s *Store) readJournal() (*journal, error) {
	text, err := s.readFile(journalFile, maxManifestSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	j := new(journal)
	if err == nil {
		if err = json.Unmarshal(text, j); err != nil {
			err = fmt.Errorf("%w: the journal of a restore: %w", ErrCorrupt, err)
		}
	}
	return j, err
}

// Interrupted reports whether there is something for [Store.Recover] to do.
func (s *Store) Interrupted() bool {
	_, err := os.Lstat(filepath.Join(s.dir, journalFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover completes the restore that was under way when an earlier process ended, or undoes it if it cannot be
// completed. Without one, it does nothing. It is to be called before anything else uses the tree.
//
// What is in the tree then and in no checkpoint gets into another one first. If there is no room for that, it stays.
// When something stays, the error is [ErrIncomplete].
func (s *Store) Recover(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.recover(ctx)
}

func (s *Store) recover(ctx context.Context) error {
	j, err := s.readJournal()
	if j == nil || err != nil {
		return err
	}
	var paths []string
	for _, p := range j.Paths {
		paths = append(paths, string(p))
	}
	err = s.resume(ctx, j, j.Target, paths)
	if err == nil || errors.Is(err, ErrIncomplete) {
		return err
	}
	if undoErr := s.resume(ctx, j, j.Before, paths); undoErr != nil {
		if errors.Is(undoErr, ErrIncomplete) {
			return undoErr
		}
		return fmt.Errorf("completing a restore that was cut off: %w; undoing it: %w", err, undoErr)
	}
	return nil
}

// resume brings the tree from anywhere between two states to one of them. The journal stays what it is, so that it can
// be cut off in turn. It needs no room in the store, which may be what cut the restore off.
func (s *Store) resume(ctx context.Context, j *journal, id ID, paths []string) error {
	r, err := s.newRestorer(id, paths)
	if err != nil {
		return err
	}
	objects, present, done, err := s.look(ctx, r.exclude)
	if err != nil {
		return err
	}
	defer done()
	r.objects, r.present = objects, present
	if err := errors.Join(r.findUnkept(ctx, j.Before), r.check(ctx)); err != nil {
		return err
	}
	if len(r.unstored) > 0 {
		switch c, err := r.keepPresent(ctx, j.Target, j.Before); {
		case err == nil:
			if err := errors.Join(r.check(ctx), r.settle(c.ID)); err != nil {
				return err
			}
		case !isNoRoom(err):
			return err
		}
	}
	return r.complete()
}
