package fsops

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// removeTree removes the directory at, which the caller knows as name, with all
// that is in it except what is protected. It goes from one directory descriptor to
// the next, so that a directory that is swapped for a link cannot lead it astray.
func removeTree(ctx context.Context, at *guardedPath, name string) error {
	r := treeRemover{ctx: ctx}
	var err error
	if r.protection, r.real, err = at.protected(); err != nil {
		return pathError("remove", name, err)
	}
	r.entry(nil, at.path, name)
	return r.err
}

// treeRemover is the state of one removal. Its methods report success.
type treeRemover struct {
	ctx context.Context
	// protection says what must stay, nil for nothing. real is the real path of the
	// top directory.
	protection *protection
	real       string
	// stack are the directories from the top to the present one.
	stack []*removeDir
	// err is the first error.
	err error
}

// entry removes the file called base in the directory parent.
func (r *treeRemover) entry(parent *removeDir, base, name string) bool {
	if err := r.ctx.Err(); err != nil {
		return r.fail(name, err)
	}
	real, err := r.mayRemove(parent, base)
	if err != nil {
		return r.fail(name, err)
	}
	err = uninterrupted(func() error { return unix.Unlinkat(parent.fd(), base, 0) })
	if err == nil || err == unix.ENOENT {
		return true
	}
	// A directory is EISDIR, unless it has another fault, too. Then its content may
	// still be removed.
	if !isAny(err, unix.EISDIR, unix.EPERM, unix.EACCES) {
		return r.fail(name, err)
	}
	dir, derr := openDirAt(parent.fd(), base, name)
	if derr == unix.ENOTDIR || derr == unix.ELOOP {
		return r.fail(name, err) // a file that can't be removed
	}
	if derr != nil && derr != unix.EACCES {
		return r.fail(name, derr)
	}
	if derr == nil && !r.content(parent, dir, real, name) {
		return false
	}
	return r.directory(parent.fd(), base, name, derr)
}

// mayRemove returns the real path of the file called base in the directory parent,
// empty if nothing is protected, and an error if the file must stay. The path of a
// directory is not read again, though others may move it: operations of the same FS
// move no file to where it would be protected.
func (r *treeRemover) mayRemove(parent *removeDir, base string) (string, error) {
	if r.protection == nil {
		return "", nil
	}
	real := r.real
	if parent != nil {
		real = filepath.Join(parent.real, base)
	}
	return real, r.protection.refuse(real)
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
	dir := os.NewFile(uintptr(fd), name)
	if err := opener.MayChange(dir); err != nil { // a mount in the tree
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// directory removes a directory that is empty by now. A directory that could not be read, because of unread,
// may turn out to be empty.
func (r *treeRemover) directory(parent int, base, name string, unread error) bool {
	err := uninterrupted(func() error { return unix.Unlinkat(parent, base, unix.AT_REMOVEDIR) })
	if err == nil || err == unix.ENOENT {
		return true
	}
	if err == unix.ENOTEMPTY && unread != nil {
		err = unread
	}
	return r.fail(name, err)
}

// content removes the content of the directory open as file, and closes that.
func (r *treeRemover) content(parent *removeDir, file *os.File, real, name string) bool {
	dir := r.enter(file, real)
	cleared := r.clear(dir, name)
	if err := r.leave(dir, parent); err != nil {
		return r.fail(name, err)
	}
	return cleared
}

// clear removes the content of the directory. It reads names in batches, each from the
// beginning, since reading on in a directory that loses entries skips some.
func (r *treeRemover) clear(dir *removeDir, name string) bool {
	for {
		names, err := dir.file.Readdirnames(dirBatch)
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			return r.fail(name, err)
		}
		removed := 0
		for _, base := range names {
			if r.entry(dir, base, filepath.Join(name, base)) {
				removed++
			}
			if dir.file == nil {
				return false // there is no way back to it
			}
		}
		if removed == 0 || r.ctx.Err() != nil {
			return false
		}
		if _, err := dir.file.Seek(0, io.SeekStart); err != nil {
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
