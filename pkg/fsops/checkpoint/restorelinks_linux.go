package checkpoint

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// findLinks adds the further names of files whose first names were made anew.
func (r *restorer) findLinks(h Hash) error {
	pending := map[string]bool{}
	for _, l := range r.links {
		pending[l.path] = true
	}
	return tree.Compare(noContext, r.objects, Hash{}, h, func(p string, _, e *tree.Entry) error {
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
	if !r.scope.covers(l.target) {
		return r.copyInstead(root, l)
	}
	if r.isKept(l.target) {
		return fmt.Errorf("%q is not as in the checkpoint", l.target)
	}
	from, fromName, err := openParent(root, l.target)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, name, err := openParent(root, l.path)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	var a, b unix.Statx_t
	if statx(from, fromName, &a) == nil && statx(to, name, &b) == nil && a.Ino == b.Ino {
		return nil
	}
	var dir unix.Stat_t
	if err := unix.Fstat(to, &dir); err != nil {
		return err
	}
	defer func() {
		timeErr := setTime(to, dir.Mtim.Nano()) // which was what it is to be
		if !errors.Is(timeErr, unix.EPERM) {    // the directory is somebody else's, as the root of the tree may be
			err = errors.Join(err, timeErr)
		}
	}()
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

// copyInstead makes a further name of a file that is not restored a file of its own, with the same content.
func (r *restorer) copyInstead(root int, l link) error {
	e, err := r.finder.Find(r.objects, r.target.root().Hash, l.target)
	if err != nil {
		return err
	}
	to, name, err := openParent(root, l.path)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if l.present == nil {
		return r.make(to, l.path, name, e)
	}
	return r.replace(to, l.path, name, l.present, e)
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
