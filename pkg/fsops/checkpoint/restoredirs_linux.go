package checkpoint

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// noContext is for what is not to be interrupted.
var noContext = context.Background()

// dir makes what is in a directory, which is as in the object a, what it is in the object b.
// A zero hash is an empty directory.
func (r *restorer) dir(fd int, path string, a, b Hash) error {
	ta, err := tree.ReadOrNone(r.objects, a)
	if err != nil {
		return err
	}
	tb, err := tree.ReadOrNone(r.objects, b)
	if err != nil {
		return err
	}
	var files []newFile
	for ea, eb := range tree.Both(ta, tb) {
		name := tree.NameOf(ea, eb)
		p := tree.Join(path, name)
		if !r.scope.reaches(p) && !r.exclude.isStaged(name) {
			continue
		}
		due, err := r.isDue(p, ea, eb)
		switch {
		case err != nil || !due:
		case ea == nil && eb.Kind == tree.Regular:
			files = append(files, newFile{p, name, eb})
		default:
			err = r.entry(fd, p, name, ea, eb)
		}
		if err != nil {
			r.keep(p, err)
		}
	}
	r.makeFiles(fd, files)
	return nil
}

// isDue reports whether a file is to be changed. The error says why that may not be.
func (r *restorer) isDue(path string, ea, eb *tree.Entry) (bool, error) {
	switch {
	case ea != nil && eb != nil && tree.Same(ea, eb):
		return false, nil
	case !r.covers(path) && !(eb != nil && eb.Kind == tree.Directory):
		return false, nil
	case ea == nil && r.isKept(path): // what is there cannot be seen
		return false, nil
	case r.wouldBeLost[path]:
		return false, errWouldBeLost
	}
	err := r.mayChange(path)
	return err == nil, err
}

// entry makes a file that is due what it is to be. One of ea and eb may be nil.
func (r *restorer) entry(fd int, path, name string, ea, eb *tree.Entry) error {
	aDir, bDir := ea != nil && ea.Kind == tree.Directory, eb != nil && eb.Kind == tree.Directory
	switch {
	case aDir && bDir:
		return r.both(fd, path, name, ea, eb)
	case eb == nil:
		return r.remove(fd, path, name, ea)
	case aDir:
		if err := r.remove(fd, path, name, ea); err != nil || r.isKept(path) {
			return err
		}
		return r.make(fd, path, name, eb)
	case bDir && ea != nil:
		if err := r.remove(fd, path, name, ea); err != nil || r.isKept(path) {
			return err
		}
		return r.make(fd, path, name, eb)
	case ea == nil:
		return r.make(fd, path, name, eb)
	case tree.SameContent(ea, eb):
		return r.describePresent(fd, path, name, ea, eb)
	}
	return r.replace(fd, path, name, ea, eb)
}

// mayChange asks the store's owner, unless nothing was there to be protected.
func (r *restorer) mayChange(path string) error {
	if r.fresh || r.s.opts.Protected == nil {
		return nil
	}
	return r.s.opts.Protected(path)
}

// both changes what is in a directory that stays one.
func (r *restorer) both(parent int, path, name string, ea, eb *tree.Entry) error {
	covered := r.covers(path)
	defer r.enterNewer(parent, name)()
	fd, err := r.enter(parent, name, ea.Mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = r.dir(fd, path, ea.Hash, eb.Hash)
	if mode := r.modeBefore(path, ea); !covered && mode&0o300 != 0o300 {
		err = errors.Join(err, unix.Fchmod(fd, mode)) // which enter has changed
	}
	if err != nil || !covered {
		return err
	}
	r.changed++
	return r.describe(fd, path, eb)
}

// modeBefore returns the mode that a directory had before enter changed it, be it in an earlier process.
func (r *restorer) modeBefore(path string, e *tree.Entry) uint32 {
	if r.before == (Hash{}) {
		return e.Mode
	}
	was, err := r.inBefore.Find(r.objects, r.before, path)
	if err != nil || was == nil || was.Kind != tree.Directory || e.Mode != was.Mode|0o700 {
		return e.Mode
	}
	return was.Mode
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
