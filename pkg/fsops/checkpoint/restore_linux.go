package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// Restore makes the tree what it was. It makes a checkpoint of what is there first, so that nothing is lost, and changes
// only what differs: each file at once, by a rename. For want of room, other checkpoints go as for [Store.Create]; if that
// does not help, Restore fails with [ErrNoRoom], says what would be lost, and changes nothing.
//
// It removes a file that the checkpoint lacks only if the file is newer: if it, or a directory that it is in, has been made,
// changed or renamed since. Of a checkpoint that was received from another store, that means since it arrived, and a directory must have been made since.
// What the checkpoint left out stays, and so does what opts.Protected of the store names, and what
// commands change while Restore runs. Restored.Kept names what is not as in the checkpoint, for which the error
// is [ErrIncomplete]. Files that are open stay open, with what they had. Nothing is followed out of the tree.
//
// A path that neither the checkpoint nor the tree has is a [fs.PathError] of [fs.ErrNotExist], for which nothing changes.
//
// If something of the checkpoint is missing or damaged, Restore fails with [ErrCorrupt], and changes nothing. Once
// it has begun to change files it goes on, whatever ctx does. If the process is killed meanwhile, [Store.Recover]
// completes it. If it cannot go on, it is undone.
//
// [ErrUnfinished] says that this cannot be either, or could not of an earlier one. Each file is as in the one
// checkpoint or the other, unless others have changed it since; [Store.Diff] tells. Until somebody decides, Create and
// restores of some paths fail with it, and neither checkpoint is dropped. A restore of everything, from whichever checkpoint,
// decides, and so does [Store.Remove] of one of the two: then the files stay as they are.
// The error is the same if all is restored, but the store cannot forget that the restore was under way.
func (s *Store) Restore(ctx context.Context, id ID, opts RestoreOptions) (Restored, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Restored{}, err
	}
	defer unlock()
	done, err := s.restore(ctx, id, opts.Paths, false)
	if err != nil {
		return done, fmt.Errorf("restoring checkpoint %.12s: %w", id, err)
	}
	// It is done in any case. If there are too many checkpoints then, there will be one more call that drops some.
	_ = s.limit(ctx, id, done.Before.ID)
	return done, nil
}

// restore is Restore for callers that have their turn, or Populate if the tree is fresh.
func (s *Store) restore(ctx context.Context, id ID, paths []string, fresh bool) (done Restored, err error) {
	r, err := s.newRestorer(id, paths, s.nextToken())
	if err != nil {
		return done, err
	}
	r.fresh, r.populates = fresh, fresh // who recovers knows only the latter
	if len(r.scope) > 0 {               // one of everything needs no earlier one to be complete
		if err := s.checkDecided(); err != nil {
			return done, err
		}
	}
	if err := r.checkPathsExist(); err != nil {
		return done, err
	}
	if done.Before, err = r.savePresent(ctx, id); err != nil {
		return done, r.withLost(ctx, err)
	}
	if fresh {
		if err := r.checkFoundNothing(); err != nil {
			return done, err
		}
	}
	if err := r.check(ctx); err != nil {
		if errors.Is(err, ErrCorrupt) {
			// The next checkpoint has to read all files and objects. Then it stores again what is damaged.
			_ = s.remove(indexFile)
		}
		return Restored{}, errors.Join(err, s.remove(manifestFile(done.Before.ID))) // nothing will have changed
	}
	if len(r.wouldBeLost) > 0 {
		// Somebody has removed objects that the index says are there.
		if err := s.remove(indexFile); err != nil {
			return done, err
		}
		if done.Before, err = r.savePresent(ctx, id, done.Before.ID); err != nil {
			return done, err
		}
		if err := r.check(ctx); err != nil {
			return done, err
		}
	}
	if err := r.settle(done.Before.ID); err != nil {
		return done, err
	}
	j := newJournal(id, done.Before.ID, paths, r.token)
	j.Populate, j.fresh, j.appeared = fresh, fresh, r.keptPaths
	if err := s.writeJournal(j); err != nil {
		return done, errors.Join(err, s.endJournal())
	}
	if err = r.complete(); !isDone(err) {
		return done, s.undo(j, err)
	}
	slices.SortStableFunc(r.kept, func(a, b LeftOut) int { return strings.Compare(a.Path, b.Path) }) // they may come in any order
	done.Changed, done.Kept, done.MoreKept = r.changed, r.kept, r.moreKept
	return done, err
}

// A restorer carries out one restore.
type restorer struct {
	s         *Store
	id        ID // of the target
	target    *manifest
	populates bool // see Store.Populate
	// fresh says that this process found the tree empty and populates it. Nobody counts on what is in it yet, so content is
	// compared with its hash only when it becomes a file. Unlike journal.Populate, fresh cannot be forged.
	fresh bool
	// damaged is the error of the first file of a fresh tree whose content is not what its hash says. Then all is undone.
	damaged error
	scope   scope
	exclude omitted
	token   string

	// objects has the directories of the target, and of what is there now, in present.
	objects *object.Store
	present *found
	// before is the tree of the checkpoint of before, if an earlier process has begun to change that.
	before Hash
	// These find files in the three trees.
	inTarget, inPresent, inBefore tree.Finder

	leftOut map[string]bool
	// wouldBeLost are the files that are to go and that no checkpoint has.
	wouldBeLost map[string]bool
	// unsaved has the paths at which the checkpoint of before has something else. It is nil once that is of what is there.
	unsaved map[Hash]bool
	// others, if a fresh tree is emptied again, are the paths of what others have made in it.
	others map[Hash]bool
	links  []link
	// linkBytes is about what links takes.
	linkBytes int
	// again are the paths of files with several names whose first name was made anew.
	again map[string]bool
	// copies has, by the path of a first name that is not restored and is another file now, the path of the file that was made
	// in its place for the further names.
	copies map[string]string

	// since is the change time, in nanoseconds, from which a file counts as newer than the target; arrived says that the
	// target came from another store. See newerSince.
	since   int64
	arrived bool
	// newer counts the directories around the present one that are proved to be newer than the checkpoint: what
	// was older has come with them.
	newer     int
	changed   int64
	written   atomic.Int64  // how many files with content
	keptPaths map[Hash]bool // the hashes of paths, which may be long and many

	mu       sync.Mutex // guards what follows while files are made
	kept     []LeftOut
	moreKept int64
}

// A link is a further name of a file, which is made when that is there.
type link struct {
	path, target string
	present      *tree.Entry // what is at the path, if anything
}

func (s *Store) newRestorer(id ID, paths []string, token string) (*restorer, error) {
	in, err := newScope(paths)
	if err != nil {
		return nil, err
	}
	target, err := s.manifest(id)
	if err != nil {
		return nil, err
	}
	r := &restorer{s: s, id: id, target: target, scope: in, token: token}
	r.since, r.arrived = s.newerSince(id, target)
	if r.exclude, err = omit(target.Exclude, token); err != nil {
		return nil, err
	}
	r.leftOut, r.wouldBeLost, r.again, r.keptPaths, r.copies = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[Hash]bool{}, map[string]string{}
	for _, l := range target.LeftOut {
		r.leftOut[string(l.Path)] = true
	}
	return r, nil
}

// maxLinkBytes bounds the paths that a restore has of hard links: a forged directory may have any.
const maxLinkBytes = 256 << 20

// addLink notes a further name to be made.
func (r *restorer) addLink(l link) error {
	if r.linkBytes += len(l.path) + len(l.target); r.linkBytes > maxLinkBytes {
		return fmt.Errorf("%w: the paths of its hard links have more than %d MiB", ErrTooLarge, maxLinkBytes>>20)
	}
	r.links = append(r.links, l)
	return nil
}

// savePresent makes a checkpoint of what is there. The needed checkpoints do not go to make room for it: those that the
// restore is between.
func (r *restorer) savePresent(ctx context.Context, needed ...ID) (Checkpoint, error) {
	c, present, err := r.s.create(ctx, CreateOptions{Exclude: r.target.Exclude}, r.token, needed...)
	if err != nil {
		return c, fmt.Errorf("making a checkpoint of what is there: %w", err)
	}
	r.objects, r.present, r.unsaved = r.s.objects, present, nil
	return c, nil
}

// withLost adds to the error of savePresent, if there was no room, which files no checkpoint has that the restore would
// change, and what helps.
func (r *restorer) withLost(ctx context.Context, err error) error {
	if !isNoRoom(err) {
		return err
	}
	objects, present, done, lookErr := r.s.look(ctx, r.exclude)
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	defer done()
	r.objects, r.present = objects, present
	first, count := "", 0
	lookErr = tree.Compare(ctx, objects, present.tree, r.target.root().Hash, func(path string, a, b *tree.Entry) error {
		if r.covers(path) && r.wouldLose(path, a, b) {
			if count++; count == 1 {
				first = path
			}
		}
		return nil
	})
	if lookErr != nil {
		return errors.Join(err, lookErr)
	}
	return fmt.Errorf("%w; no checkpoint has %.200q, the first of %d files that would be changed: move them away, or remove a checkpoint", err, first, count)
}

// check returns an error if the store lacks something that the restore needs. It notes what would be lost.
func (r *restorer) check(ctx context.Context) error {
	clear(r.wouldBeLost)
	return tree.Compare(ctx, r.objects, r.present.tree, r.target.root().Hash, func(path string, a, b *tree.Entry) error {
		if !r.covers(path) {
			return nil
		}
		if r.wouldLose(path, a, b) {
			r.wouldBeLost[path] = true
		}
		if b != nil && b.Kind == tree.Regular && (a == nil || a.Kind != tree.Regular || a.Hash != b.Hash) {
			if err := r.checkContent(b.Hash); err != nil {
				return fmt.Errorf("%q: %w", path, err)
			}
		}
		return nil
	})
}

// checkContent returns an error unless the store has content, and unless that is whole. In a fresh tree, making the file tells
// the latter.
func (r *restorer) checkContent(h Hash) error {
	if r.fresh {
		return r.s.objects.CheckThere(h)
	}
	return r.s.objects.Check(h)
}

// covers reports whether the restore may change a path: also what it had staged anywhere when it was cut off.
func (r *restorer) covers(path string) bool {
	return r.scope.covers(path) || r.exclude.isStaged(path[strings.LastIndexByte(path, '/')+1:])
}

// wouldLose reports whether no checkpoint has what is at a path, where the restore puts something else.
func (r *restorer) wouldLose(path string, a, b *tree.Entry) bool {
	switch {
	case a == nil || b != nil && tree.SameContent(a, b) || r.isMade(path):
		return false
	case a.Kind == tree.Regular && !r.s.objects.Has(a.Hash):
		return true
	case a.Kind == tree.Directory && b != nil && b.Kind == tree.Directory:
		return false
	case a.Kind == tree.Regular && !r.scope.covers(path): // what was staged is also elsewhere, if it is known
		return false
	}
	return r.unsaved[pathKey(path)]
}

// findUnsaved finds out what the checkpoint of before lacks of what is there, where none was made just now.
func (r *restorer) findUnsaved(ctx context.Context, before ID) error {
	m, err := r.s.manifest(before)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCorrupt) {
		return err
	}
	was := Hash{}
	if err == nil {
		was = m.root().Hash
	}
	r.unsaved = map[Hash]bool{}
	return tree.Compare(ctx, r.objects, r.present.tree, was, func(path string, a, b *tree.Entry) error {
		if a != nil && (b == nil || !tree.SameContent(a, b)) {
			r.unsaved[pathKey(path)] = true
		}
		return nil
	})
}

// complete changes the tree, and ends the journal once all that it has written is on the disk. If the journal cannot be
// ended, that is no reason to undo what is complete.
func (r *restorer) complete() error {
	if err := r.run(); err != nil {
		return err
	}
	if r.populates {
		_, _ = r.s.objects.SettleUnverified() // what stays unverified is compared whenever it is read
	}
	if r.populates && len(r.kept) == 0 {
		if err := r.s.writeFile(populatedFile, []byte(r.id)); err != nil {
			return err
		}
	}
	if err := r.s.endJournal(); err != nil {
		return fmt.Errorf("%w: all is restored, but the store cannot forget that it was under way: %w", ErrUnfinished, err)
	}
	if len(r.kept) > 0 {
		return fmt.Errorf("%w: %q: %s", ErrIncomplete, r.kept[0].Path, r.kept[0].Why)
	}
	return nil
}

// isDone reports whether complete has changed all that it could.
func isDone(err error) bool {
	return err == nil || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrUnfinished)
}

// keep notes that a path is not as in the checkpoint.
func (r *restorer) keep(path string, why error) {
	if r.fresh && r.damaged == nil && errors.Is(why, ErrCorrupt) {
		r.damaged = fmt.Errorf("%q: %w", path, why)
	}
	r.keptPaths[pathKey(path)] = true
	if e, ok := why.(*fs.PathError); ok && r.exclude.isStaged(e.Path) {
		why = e.Err // the name is one that nobody knows
	}
	r.note(path, why.Error())
}

func pathKey(path string) Hash { return object.Sum([]byte(path)) }

func (r *restorer) isKept(path string) bool { return r.keptPaths[pathKey(path)] }

// note says of a path what is not as in the checkpoint.
func (r *restorer) note(path, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < maxNamed {
		r.kept = append(r.kept, LeftOut{Path: path, Why: why})
	} else {
		r.moreKept++
	}
}

// run changes the tree. An error is about the tree as a whole.
func (r *restorer) run() error {
	fd, err := openat(unix.AT_FDCWD, r.s.root, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r.noteUnseen()
	if err := r.noteOmitted(); err != nil {
		return err
	}
	if err := r.dir(fd, "", r.present.tree, r.target.root().Hash); err != nil {
		return err
	}
	if r.damaged != nil {
		return r.damaged
	}
	if len(r.again) > 0 {
		if err := r.findLinks(); err != nil {
			return err
		}
	}
	for _, l := range r.links {
		if err := r.link(fd, l); err != nil {
			r.keep(l.path, err)
		}
	}
	return r.syncTree(fd)
}

// noteUnseen names what is in the tree and can be neither kept nor compared. The checkpoint says of some of it
// that it lacks that. Sockets, devices and mounts are no state.
func (r *restorer) noteUnseen() {
	for _, l := range r.present.leftOut {
		path := string(l.Path)
		if l.Why != whyNoFile && l.Why != whyMounted && !r.leftOut[path] && r.scope.covers(path) {
			r.keep(path, errors.New(l.Why))
		}
	}
	r.moreKept += max(0, r.present.moreLeft-r.target.MoreLeftOut)
}
