package fsops

import "golang.org/x/sys/unix"

// renameNoReplace renames atomically, and fails with EEXIST where newPath
// exists.
func renameNoReplace(oldPath, newPath string) error {
	err := uninterrupted(func() error {
		return unix.Renameat2(unix.AT_FDCWD, oldPath, unix.AT_FDCWD, newPath, unix.RENAME_NOREPLACE)
	})
	// A file system that does not know the flag says EINVAL. A directory that would
	// move into itself is EINVAL, too: renameByClaim says that again.
	if isAny(err, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP) {
		return renameByClaim(oldPath, newPath)
	}
	return err
}
