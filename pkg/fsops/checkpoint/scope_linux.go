package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint/internal/tree"
)

// A scope is what of a tree is to be restored: what is at some paths and below. The zero scope is
// everything.
type scope []string

// newScope returns the scope of some paths, which are in the tree, from its root. Others are [fs.ErrInvalid], and too many
// are [ErrTooLarge].
func newScope(paths []string) (s scope, err error) {
	size, all := 0, false
	for _, p := range paths {
		size += len(p)
		p = path.Clean(p)
		all = all || p == "."
		if p != "." && !tree.IsPath(p) {
			return nil, fmt.Errorf("paths must be in the tree, from its root: %w", fs.ErrInvalid)
		}
		s = append(s, p)
	}
	if len(paths) > maxPaths || size > maxPathBytes {
		return nil, fmt.Errorf("%w: it is of %d paths with %d bytes", ErrTooLarge, len(paths), size)
	}
	if all {
		return nil, nil
	}
	return s, nil
}

// covers reports whether a path is in the scope.
func (s scope) covers(p string) bool {
	for _, root := range s {
		if p == root || strings.HasPrefix(p, root+"/") {
			return true
		}
	}
	return len(s) == 0
}

// reaches reports whether a path, or something below it, is in the scope.
func (s scope) reaches(p string) bool {
	for _, root := range s {
		if strings.HasPrefix(root, p+"/") {
			return true
		}
	}
	return s.covers(p)
}

// checkPathsExist returns a [fs.ErrNotExist] that names the path to restore that neither the checkpoint nor the tree has.
func (r *restorer) checkPathsExist() error {
	for _, p := range r.scope {
		had, err := r.inTarget.Find(r.s.objects, r.target.root().Hash, p)
		if err == nil && had == nil && !r.s.isThere(p) { // check tells of an error
			return &fs.PathError{Op: "restore", Path: p, Err: fs.ErrNotExist}
		}
	}
	return nil
}

// noteOmitted names the paths to restore at which there is something that checkpoints leave out.
func (r *restorer) noteOmitted() error {
	for _, p := range r.scope {
		had, err := r.inTarget.Find(r.objects, r.target.root().Hash, p)
		has, hasErr := r.inPresent.Find(r.objects, r.present.tree, p)
		if err := errors.Join(err, hasErr); err != nil {
			return err
		}
		if had == nil && has == nil && !r.isKept(p) && r.s.isThere(p) {
			r.keep(p, errOmitted)
		}
	}
	return nil
}

var errOmitted = errors.New("the checkpoint leaves it out")

// isThere reports whether the tree may have something at a path. It follows no links.
func (s *Store) isThere(path string) bool {
	fd, err := openat(unix.AT_FDCWD, s.root, unix.O_PATH|unix.O_DIRECTORY)
	for name := range strings.SplitSeq(path, "/") {
		if err != nil {
			break
		}
		dir := fd
		fd, err = openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW)
		unix.Close(dir)
	}
	if err == nil {
		unix.Close(fd)
	}
	return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR)
}
