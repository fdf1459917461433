package fsops

import (
	"errors"
	"io/fs"
	"syscall"
)

// isGone reports that err says that there is no such file, or that a directory on
// the way to it is none any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// isFull reports that err says that there is no room or no descriptor left,
// which another way of writing the same bytes would not change.
func isFull(err error) bool {
	return isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EFBIG)
}

// needsInPlace reports that err says that a file cannot be replaced, though
// it might be written: the directory is not writable, it is a mount point,
// its owner cannot be kept, or the file system lacks the operation.
func needsInPlace(err error) bool {
	return isAny(err, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV,
		syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP)
}

// refusesNew reports that err says that a directory takes no new file, though
// one that is in it might be written. ENOENT is what /proc says.
func refusesNew(err error) bool {
	return needsInPlace(err) || isAny(err, syscall.ENOENT)
}

func isAny(err error, classes ...syscall.Errno) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
