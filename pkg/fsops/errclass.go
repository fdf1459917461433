package fsops

import (
	"errors"
	"io/fs"
	"syscall"
)

// isGone reports whether err says that there is no such file, or that a directory on
// its path is not one any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// isFull reports whether err says that there is no room or no descriptor left. Another
// way of writing the same bytes would fail, too.
func isFull(err error) bool {
	return isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.EFBIG)
}

// needsInPlace reports whether err says that a file cannot be replaced, though it may
// be writable: the directory is not writable, the file is a mount point, its owner
// cannot be kept, or the file system lacks the operation.
func needsInPlace(err error) bool {
	return isAny(err, syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.EBUSY, syscall.EXDEV,
		syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP)
}

func isAny(err error, classes ...syscall.Errno) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
