package checkpoint

import (
	"errors"

	"golang.org/x/sys/unix"
)

// dir makes what is in a directory, which is as in the object a, what it is in the object b.
// A zero hash is an empty directory.
func (r *restorer) dir(fd int, path string, a, b Hash) error {
	ta, err := r.objects.treeOrNone(a)
	if err != nil {
		return err
	}
	tb, err := r.objects.treeOrNone(b)
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
	covered := r.covers(path)
	if !covered && !bDir {
		return nil
	}
	if ea == nil && r.isKept(path) { // what is there cannot be seen
		return nil
	}
	if r.unstored[path] {
		return errUnstored
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
	case sameContent(ea, eb):
		return r.describePresent(fd, path, name, ea, eb)
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
	fd, err := r.enter(parent, name, ea.mode)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	err = r.dir(fd, path, ea.hash, eb.hash)
	if !covered && ea.mode&0o300 != 0o300 {
		err = errors.Join(err, unix.Fchmod(fd, ea.mode)) // which enter has changed
	}
	if err != nil || !covered {
		return err
	}
	r.changed++
	return r.describe(fd, path, eb)
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
