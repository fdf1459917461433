package fsops

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file in dir that has no name, so that nothing of it
// is left when it is closed, or this process killed, before linkUnnamed.
func openUnnamed(dir string, perm fs.FileMode) (*os.File, error) {
	// Without /proc it could not be given a name later.
	if err := unix.Access("/proc/self/fd", unix.X_OK); err != nil {
		return nil, err
	}
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, perm)
}

// linkUnnamed gives the file, which openUnnamed opened, the name path. It
// does not replace an existing file (EEXIST).
func linkUnnamed(file *os.File, path string) error {
	return uninterrupted(func() error {
		return unix.Linkat(unix.AT_FDCWD, descriptorPath(file), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
	})
}

// descriptorPath returns a path that leads to the open file, whatever its
// name is by now.
func descriptorPath(file *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd())
}
