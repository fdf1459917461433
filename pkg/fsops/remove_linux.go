package fsops

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// removeTree removes the directory at path, which the caller knows as name,
// with all that is in it. It goes from one directory descriptor to the next,
// so that nobody who swaps a directory for a link can lead it astray.
func removeTree(ctx context.Context, path, name string) error {
	r := treeRemover{ctx: ctx}
	r.entry(unix.AT_FDCWD, path, name)
	return r.err
}

// treeRemover is the state of one removal. Its methods report success.
type treeRemover struct {
	ctx context.Context
	// err is the first error.
	err error
}

// entry removes what is called base in the directory open as parent.
func (r *treeRemover) entry(parent int, base, name string) bool {
	if err := r.ctx.Err(); err != nil {
		return r.fail(name, err)
	}
	err := uninterrupted(func() error { return unix.Unlinkat(parent, base, 0) })
	if err == nil || err == unix.ENOENT {
		return true
	}
	// A directory is EISDIR, unless something else is wrong with it too; then
	// what is in it may still be removed.
	if !isAny(err, unix.EISDIR, unix.EPERM, unix.EACCES) {
		return r.fail(name, err)
	}
	dir, derr := openDirAt(parent, base, name)
	if derr == unix.ENOTDIR || derr == unix.ELOOP {
		return r.fail(name, err) // a file that can't be removed
	}
	if derr != nil && derr != unix.EACCES {
		return r.fail(name, derr)
	}
	if derr == nil && !r.content(dir, name) {
		return false
	}
	return r.directory(parent, base, name)
}

// openDirAt opens the directory called base in the directory open as parent,
// not following a link.
func openDirAt(parent int, base, name string) (*os.File, error) {
	var fd int
	err := uninterrupted(func() (err error) {
		fd, err = unix.Openat(parent, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// directory removes a directory that is empty by now, or that is found out
// to be empty by this, if it could not be read.
func (r *treeRemover) directory(parent int, base, name string) bool {
	err := uninterrupted(func() error { return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR) })
	if err == nil || err == unix.ENOENT {
		return true
	}
	return r.fail(name, err)
}

// content removes what is in the directory, and closes it. It reads names in
// batches, and after each from the beginning, since reading on in a directory
// that loses entries skips some.
func (r *treeRemover) content(dir *os.File, name string) bool {
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(dirBatch)
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return r.fail(name, err)
		}
		removed := 0
		for _, base := range names {
			if r.entry(int(dir.Fd()), base, filepath.Join(name, base)) {
				removed++
			}
		}
		if removed == 0 || r.ctx.Err() != nil {
			return false
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil {
			return r.fail(name, err)
		}
	}
}

// fail keeps the error if it is the first.
func (r *treeRemover) fail(name string, err error) bool {
	if r.err == nil {
		r.err = pathError("remove", name, err)
	}
	return false
}
