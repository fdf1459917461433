package fsops

import "golang.org/x/sys/unix"

// renameNoReplace renames atomically, and fails with EEXIST where newPath
// exists.
func renameNoReplace(oldPath, newPath string) error {
	err := uninterrupted(func() error {
		return unix.Renameat2(unix.AT_FDCWD, oldPath, unix.AT_FDCWD, newPath, unix.RENAME_NOREPLACE)
	})
	// The error is EINVAL if the file system does not know the flag, and also if a
	// directory would move into itself: then renameByClaim fails with it again.
	if isAny(err, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP) {
		return renameByClaim(oldPath, newPath)
	}
	return err
}
