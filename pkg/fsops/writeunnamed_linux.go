package fsops

import (
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed opens a new file in dir that has no name. Nothing of it is left if it
// is closed, or this process is killed, before linkUnnamed.
func openUnnamed(dir string, perm fs.FileMode) (*os.File, error) {
	if err := mayLinkUnnamed(); err != nil {
		return nil, err
	}
	return os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE, perm)
}

// openUnnamedIn is openUnnamed for the directory root.
func openUnnamedIn(root *os.Root, perm fs.FileMode) (*os.File, error) {
	if err := mayLinkUnnamed(); err != nil {
		return nil, err
	}
	return root.OpenFile(".", os.O_RDWR|unix.O_TMPFILE, perm)
}

// mayLinkUnnamed returns nil if there is /proc. Without it an unnamed file could
// not get a name later.
func mayLinkUnnamed() error { return unix.Access("/proc/self/fd", unix.X_OK) }

// linkUnnamed gives the file, which openUnnamed opened, the name path. It
// does not replace an existing file (EEXIST).
func linkUnnamed(file *os.File, path string) error {
	return linkUnnamedAt(file, unix.AT_FDCWD, path)
}

// linkUnnamedIn is linkUnnamed for a name in the open directory dir. The name
// must have no slash, so that it cannot lead anywhere else.
func linkUnnamedIn(file, dir *os.File, name string) error {
	return linkUnnamedAt(file, int(dir.Fd()), name)
}

func linkUnnamedAt(file *os.File, dir int, path string) error {
	return uninterrupted(func() error {
		return unix.Linkat(unix.AT_FDCWD, descriptorPath(file), dir, path, unix.AT_SYMLINK_FOLLOW)
	})
}

// descriptorPath returns a path that leads to the open file, even if its name changes.
func descriptorPath(file *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d", file.Fd())
}
