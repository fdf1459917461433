package checkpoint

import (
	"context"
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
//	                    its way to its name, or from it, is beside it, under a name with the token of the journal
//	without a journal   the tree is the target, but for what the restore has named
//
//	with the journal    the tree is anywhere between Before and Target. Commands may have changed it since: nothing acts on
//	of the unfinished   this journal but a restore of everything, or whoever removes one of the two checkpoints
//
// Who finds a journal brings the tree to Target, or to Before if that cannot be. It leaves the journal as it is until
// then, so both stay what they were, however often it is killed. If neither can be, the journal becomes that of the
// unfinished.

// Interrupted reports whether there is something for [Store.Recover] to do.
func (s *Store) Interrupted() bool {
	_, err := os.Lstat(filepath.Join(s.dir, journalFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover completes the restore that was under way when an earlier process ended, or undoes it if it cannot be
// completed. Without one, it does nothing. It is to be called before anything else uses the tree, and not only once if
// ctx ends meanwhile.
//
// What is in the tree then and in no checkpoint gets into another one first. If there is no room for that, it stays.
// When something stays, the error is [ErrIncomplete].
//
// If the restore can be neither completed nor undone, the error is [ErrUnfinished]. No later Recover tries it again, since
// the tree may have been used meanwhile: see [Store.Restore] for what to do.
func (s *Store) Recover(ctx context.Context) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	j, err := s.readJournal(journalFile)
	switch {
	case errors.Is(err, ErrCorrupt): // it tells nobody what to do
		return errors.Join(err, s.endJournal())
	case err != nil:
		return s.setAside(err)
	case j == nil:
		return nil
	}
	return s.bringTo(ctx, j, errCutOff, j.Target, j.Before)
}

var errCutOff = errors.New("it was cut off")

// bringTo brings the tree, from anywhere between the two states of a journal, to the first of some states that it can be
// brought to. Without any it gives up, and says why there was a need.
func (s *Store) bringTo(ctx context.Context, j *journal, why error, states ...ID) error {
	for _, id := range states {
		err := s.resume(ctx, j, id)
		if isDone(err) {
			return err
		}
		why = fmt.Errorf("%w; restoring %.12s: %w", why, id, err)
	}
	if ctx.Err() != nil { // the next process can do better
		return why
	}
	return s.giveUp(j, why)
}

// resume brings the tree from anywhere between two states to one of them. The journal stays what it is, so that it can
// be cut off in turn. It needs no room in the store, which may be what cut the restore off.
func (s *Store) resume(ctx context.Context, j *journal, id ID) error {
	r, err := s.newRestorer(id, j.paths(), j.Token)
	if err != nil {
		return err
	}
	r.fresh, r.populates = j.fresh, j.Populate && id == j.Target
	objects, present, done, err := s.look(ctx, r.exclude)
	if err != nil {
		return err
	}
	defer done()
	r.objects, r.present = objects, present
	if before, err := s.manifest(j.Before); err == nil {
		r.before = before.root().Hash
	}
	if j.fresh && id == j.Before {
		if err := r.findOthers(ctx, j.Target, j.appeared); err != nil {
			return err
		}
	}
	if err := errors.Join(r.findUnsaved(ctx, j.Before), r.check(ctx)); err != nil {
		return err
	}
	if len(r.wouldBeLost) > 0 {
		switch c, err := r.savePresent(ctx, j.Target, j.Before); {
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
