package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RemoveOptions says what [FS.Remove] removes.
type RemoveOptions struct {
	// Recursive removes a directory with all that is in it.
	Recursive bool
	// Force makes it no error if there is nothing to remove.
	Force bool
}

// Remove removes the file, symbolic link or directory called name; it never follows
// a link. A directory that is not empty is an error of class ENOTEMPTY unless
// opts.Recursive is set. With it everything that can be removed is removed, and the
// error names the first entry that cannot.
//
// The root directory is refused with EINVAL, and the workdir and the directories
// that it lies in with EBUSY.
func (f *FS) Remove(ctx context.Context, name string, opts RemoveOptions) error {
	path, err := f.resolve("remove", name)
	if err != nil {
		return err
	}
	at, err := f.guard(path)
	var info fs.FileInfo
	if err == nil {
		defer at.close()
		info, err = os.Lstat(at.path)
	}
	if opts.Force && isGone(err) {
		return nil
	}
	if err == nil {
		err = f.mayRemove(ctx, &at, info, opts.Recursive)
	}
	switch {
	case err != nil:
		return pathError("remove", name, err)
	case !info.IsDir() || !opts.Recursive:
		return pathError("remove", name, os.Remove(at.path))
	}
	return removeTree(ctx, &at, name)
}

// mayRemove returns nil if the file at may be removed; info describes it.
func (f *FS) mayRemove(ctx context.Context, at *guardedPath, info fs.FileInfo, recursive bool) error {
	if err := at.check(0); err != nil || !info.IsDir() {
		return err
	}
	if err := f.mayRemoveDir(info); err != nil || !recursive {
		return err
	}
	return at.checkTree(ctx)
}

// mayRemoveDir refuses the root, the workdir and the directories that it lies in. It
// compares files, since a directory can have many paths.
func (f *FS) mayRemoveDir(info fs.FileInfo) error {
	if root, err := os.Lstat(string(filepath.Separator)); err == nil && os.SameFile(root, info) {
		return syscall.EINVAL
	}
	inside, err := liesIn(f.Workdir(), info)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if inside {
		return syscall.EBUSY
	}
	return nil
}

// liesIn reports whether path is the directory that info describes, or lies in it.
// The path must exist.
func liesIn(path string, info fs.FileInfo) (bool, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	for {
		own, err := os.Lstat(path)
		if err != nil {
			return false, err
		}
		if os.SameFile(own, info) {
			return true, nil
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false, nil
		}
		path = parent
	}
}
