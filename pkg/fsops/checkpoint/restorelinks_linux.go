package checkpoint

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// findLinks adds the further names that were of the same file before, which was made anew.
func (r *restorer) findLinks() error {
	pending := map[string]bool{}
	for _, l := range r.links {
		pending[l.path] = true
	}
	return tree.Compare(noContext, r.objects, Hash{}, r.target.root().Hash, func(p string, _, e *tree.Entry) error {
		if e.Kind == tree.HardLink && r.again[e.Target] && !pending[p] && r.scope.covers(p) {
			present := *e
			return r.addLink(link{path: p, target: e.Target, present: &present})
		}
		return nil
	})
}

// link gives a file a further name.
func (r *restorer) link(root int, l link) (err error) {
	if r.isKept(l.path) {
		return nil
	}
	if err := r.mayChange(l.path); err != nil {
		return err
	}
	if first, ok := r.copies[l.target]; ok {
		l.target = first
	}
	if r.isKept(l.target) {
		return fmt.Errorf("%q is not as in the checkpoint", l.target)
	}
	to, name, err := openParent(root, l.path)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	leave, err := makeWritable(to)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, leave()) }()
	if !r.scope.covers(l.target) {
		if stays, err := r.isAsInTarget(l.target); err != nil || !stays {
			return errors.Join(err, r.copyInstead(to, name, l))
		}
	}
	return r.linkTo(root, to, name, l)
}

// isAsInTarget reports whether a file that is no directory is there as it was.
func (r *restorer) isAsInTarget(path string) (bool, error) {
	was, err := r.inTarget.LinkedFile(r.objects, r.target.root().Hash, path)
	if err != nil {
		return false, err
	}
	is, err := r.inPresent.Find(r.objects, r.present.tree, path)
	return is != nil && tree.Same(is, was), err
}

// linkTo gives the file at l.target, which is there, a name in an open directory.
func (r *restorer) linkTo(root, to int, name string, l link) error {
	from, fromName, err := openParent(root, l.target)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	var a, b unix.Statx_t
	if statx(from, fromName, &a) == nil && statx(to, name, &b) == nil && a.Ino == b.Ino {
		return nil
	}
	staged := r.exclude.newName()
	if err := unix.Linkat(from, fromName, to, staged, 0); err != nil {
		return err
	}
	r.changed++
	if l.present != nil {
		return r.swap(to, staged, name, l.present, nil)
	}
	if err := rename(to, staged, name, unix.RENAME_NOREPLACE); err != nil {
		return errors.Join(err, unix.Unlinkat(to, staged, 0))
	}
	return nil
}

// copyInstead makes a further name of a file that is not restored, and is another one now, a file with the same content. It is
// the file of all further names that are restored.
func (r *restorer) copyInstead(to int, name string, l link) error {
	e, err := r.inTarget.LinkedFile(r.objects, r.target.root().Hash, l.target)
	if err != nil {
		return err
	}
	if l.present == nil {
		err = r.make(to, l.path, name, e)
	} else {
		err = r.replace(to, l.path, name, l.present, e)
	}
	if err == nil {
		r.copies[l.target] = l.path
	}
	return err
}

// makeWritable lets an open directory be written to that has its mode and time already. leave gives it both back.
func makeWritable(fd int) (leave func() error, err error) {
	var was unix.Stat_t
	if err := unix.Fstat(fd, &was); err != nil {
		return nil, err
	}
	mode := was.Mode & tree.ModeBits
	if mode&0o300 != 0o300 {
		_ = unix.Fchmod(fd, mode|0o700) // where that may not be, neither may what follows
	}
	return func() (err error) {
		if mode&0o300 != 0o300 {
			err = unix.Fchmod(fd, mode)
		}
		err = errors.Join(err, setTime(fd, was.Mtim.Nano()))
		if errors.Is(err, unix.EPERM) { // the directory is somebody else's, as the root of the tree may be
			return nil
		}
		return err
	}, nil
}

// openParent opens the directory that a path is in, without following links.
func openParent(root int, path string) (fd int, name string, err error) {
	fd, err = unix.Dup(root)
	parts := strings.Split(path, "/")
	for _, part := range parts[:len(parts)-1] {
		if err != nil {
			return -1, "", err
		}
		next, openErr := openat(fd, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		unix.Close(fd)
		fd, err = next, openErr
	}
	return fd, parts[len(parts)-1], err
}
