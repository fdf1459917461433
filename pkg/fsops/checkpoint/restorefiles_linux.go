package checkpoint

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/object"
	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

var (
	errAppeared    = errors.New("something was made there meanwhile")
	errMoved       = errors.New("it was changed meanwhile")
	errOlder       = errors.New("it is older than the checkpoint, which lacks it")
	errMounted     = errors.New(whyMounted)
	errInUse       = errors.New("there are files in it that stay")
	errWouldBeLost = errors.New("no checkpoint has what is there, and there is no room for one")
)

// remove removes what the checkpoint lacks, if that is proved to be newer.
func (r *restorer) remove(parent int, path, name string, e *tree.Entry) error {
	if r.leftOut[path] || r.exclude.match(path, e.Kind == tree.Directory) {
		return nil
	}
	if e.Kind == tree.Directory {
		return r.removeDir(parent, path, name, e)
	}
	if err := r.checkNewer(parent, name); err != nil {
		return err
	}
	aside := r.exclude.newName()
	if err := rename(parent, name, aside, unix.RENAME_NOREPLACE); err != nil {
		return gone(err)
	}
	if err := r.checkKnown(parent, aside, e); err != nil {
		if back := rename(parent, aside, name, unix.RENAME_NOREPLACE); back != nil {
			err = fmt.Errorf("%w, and it is called %s now: %w", err, aside, back)
		}
		return err
	}
	r.changed++
	return unix.Unlinkat(parent, aside, 0)
}

// gone turns the error of what is not there any more into none.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (r *restorer) removeDir(parent int, path, name string, e *tree.Entry) error {
	stays := r.arrived && !r.madeSince(parent, name)
	defer r.enterNewer(parent, name)()
	fd, err := r.enter(parent, name, e.Mode)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if err := r.dir(fd, path, e.Hash, Hash{}); err != nil {
		return err
	}
	if stays {
		return errors.Join(errOlder, r.describe(fd, path, e))
	}
	switch err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); {
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		return errors.Join(errInUse, r.describe(fd, path, e))
	case err != nil:
		return gone(err)
	}
	r.changed++
	return nil
}

// checkNewer returns an error unless a file has been made, changed or renamed since the checkpoint was begun, or arrived.
func (r *restorer) checkNewer(parent int, name string) error {
	if r.exclude.isStaged(name) || r.newer > 0 {
		return nil
	}
	var st unix.Statx_t
	if err := statx(parent, name, &st); err != nil {
		return gone(err)
	}
	if nanos(st.Ctime) < r.since {
		return errOlder
	}
	return nil
}

// enterNewer counts a directory as one around the present one, until leave is called, if it has been changed or renamed since the
// checkpoint: what the checkpoint lacks in it may be older, and has come with a directory that was moved.
func (r *restorer) enterNewer(parent int, name string) (leave func()) {
	// Where the checkpoint does not name all that it left out, something of that may have come from elsewhere. One that
	// has arrived has nothing of the files that were here.
	if r.arrived || r.target.MoreLeftOut > 0 || r.checkNewer(parent, name) != nil {
		return func() {}
	}
	r.newer++
	return func() { r.newer-- }
}

// madeSince reports whether a directory is known to have been made since the checkpoint arrived. Its other times change with what
// is in it.
func (r *restorer) madeSince(parent int, name string) bool {
	var st unix.Statx_t
	return statx(parent, name, &st) == nil && st.Mask&unix.STATX_BTIME != 0 && nanos(st.Btime) >= r.since
}

// checkKnown returns an error unless a file is what the scan has found for an entry, so that nothing is lost with it.
func (r *restorer) checkKnown(parent int, name string, e *tree.Entry) error {
	var st unix.Statx_t
	if err := statx(parent, name, &st); err != nil {
		return err
	}
	if e.Kind == tree.HardLink {
		first, err := r.inPresent.LinkedFile(r.objects, r.present.tree, e.Target)
		if err != nil {
			return err
		}
		e = first
	}
	if kindOf(uint32(st.Mode)) != e.Kind {
		return errMoved
	}
	switch e.Kind {
	case tree.Regular:
		return r.checkUnchanged(parent, name, &st)
	case tree.Symlink:
		if target, err := readlink(parent, name); err != nil || target != e.Target {
			return errMoved
		}
	}
	return nil
}

func (r *restorer) checkUnchanged(parent int, name string, st *unix.Statx_t) error {
	rec := r.present.index.find(inodeID{deviceOf(st), st.Ino})
	if rec == nil || rec.bytes != int64(st.Size) || rec.mtime != nanos(st.Mtime) {
		return errMoved
	}
	// Whoever writes in place can also set the time back, so only the content tells.
	h, err := hashOf(parent, name)
	if err == nil && h != rec.hash {
		err = errMoved
	}
	return err
}

// hashOf returns the hash of the object that a regular file would have now.
func hashOf(parent int, name string) (h Hash, err error) {
	fd, err := openat(parent, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK)
	if err != nil {
		return h, err
	}
	defer unix.Close(fd)
	var opened unix.Stat_t
	if err := unix.Fstat(fd, &opened); err != nil {
		return h, err
	}
	now, sparse := recordOf(&opened)
	only := object.HashOnly()
	found, err := (&scan{ctx: noContext, objects: only}).content(only.Coder(), fd, now, sparse)
	return found.hash, err
}

// make makes what is not there.
func (r *restorer) make(parent int, path, name string, e *tree.Entry) error {
	switch e.Kind {
	case tree.Directory:
		return r.makeDir(parent, path, name, e)
	case tree.HardLink:
		return r.addLink(link{path: path, target: e.Target})
	}
	err := r.place(parent, path, name, e)
	if err == nil {
		r.made(path, e)
	}
	return err
}

// place makes a file that is no directory where nothing is. It may be called concurrently.
func (r *restorer) place(parent int, path, name string, e *tree.Entry) error {
	staged, err := r.stage(parent, path, e)
	if err != nil {
		return err
	}
	if err := rename(parent, staged, name, unix.RENAME_NOREPLACE); err != nil {
		if errors.Is(err, unix.EEXIST) {
			err = errAppeared
		}
		return errors.Join(err, unix.Unlinkat(parent, staged, 0))
	}
	return nil
}

// A newFile is a regular file to be made where nothing is.
type newFile struct {
	path, name string
	entry      *tree.Entry
}

// maxMakers is how many files are made at once: most of the time goes into their contents.
const maxMakers = 4

// makeFiles makes files in a directory.
func (r *restorer) makeFiles(parent int, files []newFile) {
	errs := make([]error, len(files))
	var next atomic.Int64
	var makers sync.WaitGroup
	for range min(maxMakers, runtime.GOMAXPROCS(0), len(files)) {
		makers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(files)); i = next.Add(1) - 1 {
				f := &files[i]
				errs[i] = r.place(parent, f.path, f.name, f.entry)
			}
		})
	}
	makers.Wait()
	for i, f := range files {
		if errs[i] == nil {
			r.made(f.path, f.entry)
		} else {
			r.keep(f.path, errs[i])
		}
	}
}

// made notes that a file was made anew.
func (r *restorer) made(path string, e *tree.Entry) {
	r.changed++
	if e.Flags&tree.Linked != 0 {
		r.again[path] = true
	}
}

func (r *restorer) makeDir(parent int, path, name string, e *tree.Entry) error {
	if err := unix.Mkdirat(parent, name, 0o700); errors.Is(err, unix.EEXIST) {
		return errAppeared
	} else if err != nil {
		return err
	}
	fd, err := r.enter(parent, name, e.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := r.dir(fd, path, Hash{}, e.Hash); err != nil {
		return err
	}
	r.changed++
	return r.describe(fd, path, e)
}

// replace puts a file in the place of another one.
func (r *restorer) replace(parent int, path, name string, ea, eb *tree.Entry) error {
	if eb.Kind == tree.HardLink {
		return r.addLink(link{path: path, target: eb.Target, present: ea})
	}
	staged, err := r.stage(parent, path, eb)
	if err != nil {
		return err
	}
	if err := r.swap(parent, staged, name, ea, eb); err != nil {
		return err
	}
	r.made(path, eb)
	return nil
}

// swap gives a staged file the name of one that goes. It was made from an entry, or has further names if that is nil.
func (r *restorer) swap(parent int, staged, name string, present, made *tree.Entry) error {
	ours, err := hold(parent, staged)
	if err == nil {
		defer ours.release()
		err = rename(parent, staged, name, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(parent, staged, 0))
	}
	if err := r.checkKnown(parent, staged, present); err != nil {
		return errors.Join(err, swapBack(parent, staged, name, ours, made))
	}
	return unix.Unlinkat(parent, staged, 0)
}

// swapBack gives the file that is called staged its name again, which ours has: that was made from an entry, or has further
// names if that is nil. Others may put files there meanwhile: the last one stays. Whoever writes to a file that has the name
// only for a moment must not lose that: what is not as it was before stays as well, called staged.
func swapBack(parent int, staged, name string, ours held, made *tree.Entry) error {
	was, bothStay := map[inodeID]Hash{}, false // what those that had the name were before
	if made != nil {
		was[ours.id] = made.Hash
	}
	for began, n := time.Now(), 0; n < swapTries && (n == 0 || time.Since(began) < swapTime); n++ {
		back, err := hold(parent, staged)
		if err == nil {
			defer back.release() // at the end: until then, no other file gets its inode
			was[back.id] = contentOf(parent, staged)
			err = rename(parent, staged, name, unix.RENAME_EXCHANGE)
		}
		if errors.Is(err, unix.ENOENT) { // the name has been removed meanwhile
			return rename(parent, staged, name, unix.RENAME_NOREPLACE)
		}
		if err != nil {
			return fmt.Errorf("it is called %s now: %w", staged, err)
		}
		now, err := hold(parent, staged)
		if err != nil {
			return err
		}
		now.release()
		before, known := was[now.id]
		isOurs := now.id == ours.id
		// What cannot be read is not known to be the same, unless it is ours.
		same := known && contentOf(parent, staged) == before && (isOurs || before != Hash{})
		switch {
		case same && !bothStay || isOurs && made == nil:
			return unix.Unlinkat(parent, staged, 0)
		case known && !isOurs:
			return fmt.Errorf("it was written to meanwhile, and what it was before is called %s now", staged)
		case known:
			bothStay = true
		}
		// Somebody has put another file there before it came back, or written to ours, which is as good.
	}
	return fmt.Errorf("it is called %s now, since its name never keeps still", staged)
}

// contentOf is hashOf, but zero for what has no content.
func contentOf(parent int, name string) Hash {
	h, err := hashOf(parent, name)
	if err != nil {
		return Hash{}
	}
	return h
}

// swapTries bounds how often others may get in between, and swapTime for how long after the first time.
const (
	swapTries = 100
	swapTime  = 2 * time.Second
)

// held is a file whose inode no other file gets until it is released.
type held struct {
	fd int
	id inodeID
}

func hold(parent int, name string) (held, error) {
	fd, err := openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return held{}, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return held{}, err
	}
	return held{fd, inodeID{st.Dev, st.Ino}}, nil
}

func (h held) release() { unix.Close(h.fd) }

// rename renames a file in its directory.
func rename(dir int, from, to string, flags uint) error {
	return unix.Renameat2(dir, from, dir, to, flags)
}
