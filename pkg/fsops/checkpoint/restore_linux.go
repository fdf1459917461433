package checkpoint

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// Restore makes the tree what it was. It makes a checkpoint of what is there first, so that nothing is lost, and changes
// only what differs: each file at once, by a rename.
//
// It removes a file that the checkpoint lacks only if the file is newer: if it has been made, changed or renamed since.
// What the checkpoint left out stays, and so does what opts.Protected of the store names, and what
// commands change while Restore runs. Restored.Kept names what is not as in the checkpoint, for which the error
// is [ErrIncomplete]. Files that are open stay open, with what they had. Nothing is followed out of the tree.
//
// If something of the checkpoint is missing or damaged, Restore fails with [ErrCorrupt], and changes nothing. Once
// it has begun to change files it goes on, whatever ctx does. If the process is killed meanwhile, [Store.Recover]
// completes it.
func (s *Store) Restore(ctx context.Context, id ID, opts RestoreOptions) (Restored, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Restored{}, err
	}
	defer unlock()
	if _, err := s.recover(ctx); err != nil {
		return Restored{}, err
	}
	r, err := s.restore(ctx, id, opts.Paths)
	if err != nil {
		err = fmt.Errorf("restoring checkpoint %.12s: %w", id, err)
	}
	return r, err
}

// A journal says that a restore is under way.
type journal struct {
	Target ID       `json:"target"`
	Before ID       `json:"before"`
	Paths  [][]byte `json:"paths,omitempty"`
}

// restore is Restore for callers that hold the lock.
func (s *Store) restore(ctx context.Context, id ID, paths []string) (done Restored, err error) {
	in, ok := newScope(paths)
	if !ok {
		return done, fmt.Errorf("paths must be in the tree, from its root: %w", fs.ErrInvalid)
	}
	target, err := s.manifest(id)
	if err != nil {
		return done, err
	}
	r := &restorer{s: s, target: target, scope: in, token: stagedPrefix + strings.ToLower(rand.Text()[:10]) + "-"}
	if r.exclude, err = excluded(target.Exclude); err != nil {
		return done, err
	}
	// Room is not to be made by dropping what is to be restored.
	before, index, err := s.create(ctx, CreateOptions{Exclude: target.Exclude}, func(context.Context) (bool, error) { return false, nil })
	if err != nil {
		return done, fmt.Errorf("making a checkpoint of what is there: %w", err)
	}
	done.Before = before
	if r.before, err = s.manifest(before.ID); err != nil {
		return done, err
	}
	r.remember(index)
	if err := r.check(ctx); err != nil {
		if errors.Is(err, ErrCorrupt) {
			// The next checkpoint has to read all files and objects. Then it stores again what is damaged.
			_ = removeAny(filepath.Join(s.dir, indexFile))
		}
		return done, err
	}
	j := journal{Target: id, Before: before.ID}
	for _, p := range paths {
		j.Paths = append(j.Paths, []byte(p))
	}
	text, err := json.Marshal(j)
	if err == nil {
		err = s.writeFile(journalFile, text)
	}
	if err != nil {
		return done, err
	}
	err = r.run()
	done.Changed, done.Kept, done.MoreKept = r.changed, r.kept, r.moreKept
	if err == nil {
		err = removeAny(filepath.Join(s.dir, journalFile))
	}
	if err == nil && len(r.kept) > 0 {
		err = fmt.Errorf("%w: %q: %s", ErrIncomplete, r.kept[0].Path, r.kept[0].Why)
	}
	return done, err
}

// Interrupted reports whether there is something for [Store.Recover] to do.
func (s *Store) Interrupted() bool {
	_, err := os.Lstat(filepath.Join(s.dir, journalFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover completes the restore that was under way when an earlier process ended, or undoes it if it cannot be
// completed. It reports whether there was one. It is to be called before anything else uses the tree.
func (s *Store) Recover(ctx context.Context) (recovered bool, err error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	return s.recover(ctx)
}

func (s *Store) recover(ctx context.Context) (bool, error) {
	path := filepath.Join(s.dir, journalFile)
	text, err := s.readFile(journalFile, maxManifestSize)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var j journal
	if err := json.Unmarshal(text, &j); err != nil {
		return false, fmt.Errorf("%w: the journal of a restore: %w", ErrCorrupt, err)
	}
	var paths []string
	for _, p := range j.Paths {
		paths = append(paths, string(p))
	}
	_, err = s.restore(ctx, j.Target, paths)
	if err != nil && !errors.Is(err, ErrIncomplete) {
		if _, undoErr := s.restore(ctx, j.Before, paths); undoErr != nil && !errors.Is(undoErr, ErrIncomplete) {
			return true, fmt.Errorf("completing a restore that was cut off: %w; undoing it: %w", err, undoErr)
		}
		err = removeAny(path)
	}
	if errors.Is(err, ErrIncomplete) {
		err = nil
	}
	return true, err
}

// stagedPrefix begins the names of files that a restore has in the tree until they get their names.
const stagedPrefix = ".podagent-restore-"

func isStaged(name string) bool { return strings.HasPrefix(name, stagedPrefix) }

// A restorer carries out one restore.
type restorer struct {
	s              *Store
	before, target *manifest
	scope          scope
	exclude        globs.Set
	token          string
	serial         int

	index   map[uint64]record
	leftOut map[string]bool
	links   []link
	// again are the paths of files with several names whose first name was made anew.
	again map[string]bool

	// newer counts the directories around the present one that are proved to be newer than the checkpoint: what
	// was older has come with them.
	newer    int
	changed  int64
	kept     []LeftOut
	moreKept int64
	keptPath map[string]bool
}

// A link is a further name of a file, which is made when that is there.
type link struct {
	path, target string
	present      *entry // what is at the path, if anything
}

// remember keeps what the scan found in each file.
func (r *restorer) remember(x *index) {
	r.index = make(map[uint64]record, len(x.records))
	for _, rec := range x.records {
		r.index[rec.inode] = rec
	}
	r.leftOut, r.again, r.keptPath = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, l := range r.target.LeftOut {
		r.leftOut[string(l.Path)] = true
	}
}

// check returns an error if the store lacks something that the restore needs, or that would be lost.
func (r *restorer) check(ctx context.Context) error {
	o := r.s.objects
	return o.compare(ctx, "", r.before.root().hash, r.target.root().hash, func(path string, a, b *entry) error {
		if !r.scope.covers(path) {
			return nil
		}
		if a != nil && a.kind == regular && !o.has(a.hash) {
			return fmt.Errorf("%q: %w", path, missing(a.hash, fs.ErrNotExist))
		}
		if b != nil && b.kind == regular && (a == nil || a.kind != regular || a.hash != b.hash) {
			if err := o.check(b.hash); err != nil {
				return fmt.Errorf("%q: %w", path, err)
			}
		}
		return nil
	})
}

// keep notes that a path is not as in the checkpoint.
func (r *restorer) keep(path string, why error) {
	r.keptPath[path] = true
	if len(r.kept) < maxNamed {
		r.kept = append(r.kept, LeftOut{Path: path, Why: why.Error()})
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
	if err := r.dir(fd, "", r.before.root().hash, r.target.root().hash); err != nil {
		return err
	}
	if len(r.again) > 0 {
		if err := r.findLinks("", r.target.root().hash); err != nil {
			return err
		}
	}
	for _, l := range r.links {
		if err := r.link(fd, l); err != nil {
			r.keep(l.path, err)
		}
	}
	return nil
}

// dir makes what is in a directory, which is as in the object a, what it is in the object b.
// A zero hash is an empty directory.
func (r *restorer) dir(fd int, path string, a, b Hash) error {
	ta, err := r.s.objects.treeOrNone(a)
	if err != nil {
		return err
	}
	tb, err := r.s.objects.treeOrNone(b)
	if err != nil {
		return err
	}
	for ea, eb := range both(ta, tb) {
		name := nameOf(ea, eb)
		p := join(path, name)
		if !r.scope.reaches(p) && !isStaged(name) {
			continue
		}
		if err := r.entry(fd, p, name, ea, eb); err != nil {
			r.keep(p, err)
		}
	}
	return nil
}

// entry makes a file what it is to be. One of ea and eb may be nil.
func (r *restorer) entry(fd int, path, name string, ea, eb *entry) error {
	aDir, bDir := ea != nil && ea.kind == directory, eb != nil && eb.kind == directory
	if ea != nil && eb != nil && same(ea, eb) {
		return nil
	}
	covered := r.scope.covers(path) || isStaged(name)
	if !covered && !bDir {
		return nil
	}
	if err := r.mayChange(path); err != nil {
		return err
	}
	switch {
	case aDir && bDir:
		return r.both(fd, path, name, ea, eb, covered)
	case eb == nil:
		return r.remove(fd, path, name, ea)
	case aDir:
		if err := r.remove(fd, path, name, ea); err != nil || r.keptPath[path] {
			return err
		}
		return r.make(fd, path, name, eb)
	case bDir && ea != nil:
		if err := r.remove(fd, path, name, ea); err != nil || r.keptPath[path] {
			return err
		}
		return r.make(fd, path, name, eb)
	case ea == nil:
		return r.make(fd, path, name, eb)
	case sameContent(ea, eb):
		r.changed++
		return r.describe(fd, name, eb)
	}
	return r.replace(fd, path, name, ea, eb)
}

// mayChange asks the store's owner.
func (r *restorer) mayChange(path string) error {
	if r.s.opts.Protected == nil {
		return nil
	}
	return r.s.opts.Protected(path)
}

// both changes what is in a directory that stays one.
func (r *restorer) both(parent int, path, name string, ea, eb *entry, covered bool) error {
	if ea.hash != eb.hash {
		fd, err := r.enter(parent, name, ea.mode)
		if err != nil {
			return err
		}
		err = r.dir(fd, path, ea.hash, eb.hash)
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	if !covered {
		return nil
	}
	r.changed++
	return r.describe(parent, name, eb)
}

// enter opens a directory to change what is in it.
func (r *restorer) enter(parent int, name string, mode uint32) (int, error) {
	var st unix.Statx_t
	if err := statx(parent, name, &st); err == nil && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		return -1, errMounted
	}
	fd, err := openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err == nil && mode&0o300 != 0o300 {
		_ = unix.Fchmod(fd, mode|0o700) // until its modes are set at the end
	}
	return fd, err
}

// same reports whether two entries of one name need no change.
func same(a, b *entry) bool {
	x, y := *a, *b
	x.flags, y.flags = x.flags&holes, y.flags&holes
	return x == y
}

// sameContent reports whether only what describes a file differs.
func sameContent(a, b *entry) bool {
	return a.kind == b.kind && a.hash == b.hash && a.size == b.size && a.flags&holes == b.flags&holes && a.target == b.target && a.kind != hardLink
}
