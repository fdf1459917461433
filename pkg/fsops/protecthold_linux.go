package fsops

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// holdDir opens the directory at path only to hold it, which takes no permission to
// read it.
func holdDir(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// holdFile is holdDir for any file. It follows links, and never waits.
func holdFile(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH, 0)
}

// holdDirIn is holdDir for a name in root.
func holdDirIn(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// holdFileIn is holdFile for a name in root. If the name is that of a link, it
// opens the link itself.
func holdFileIn(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, unix.O_PATH, 0)
}

// realPathOf returns the real path of an open file, as the kernel knows it. A
// removed file yields its last path plus " (deleted)".
func realPathOf(file *os.File) (string, error) {
	path, err := os.Readlink(descriptorPath(file))
	if err == nil && !filepath.IsAbs(path) {
		err = fmt.Errorf("it has no path: %q: %w", path, unix.ESTALE)
	}
	return path, err
}
