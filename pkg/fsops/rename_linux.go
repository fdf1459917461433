package fsops

import "golang.org/x/sys/unix"

// renameNoReplace renames atomically, and fails with EEXIST where newPath
// exists.
func renameNoReplace(oldPath, newPath string) error {
	err := uninterrupted(func() error {
		return unix.Renameat2(unix.AT_FDCWD, oldPath, unix.AT_FDCWD, newPath, unix.RENAME_NOREPLACE)
	})
	// EINVAL is what a file system says that does not know the flag, but also
	// that a directory would move into itself: the other way says that again.
	if isAny(err, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP) {
		return renameByClaim(oldPath, newPath)
	}
	return err
}
