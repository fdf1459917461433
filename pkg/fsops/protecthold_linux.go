package fsops

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// holdsAll says that every change is made through a descriptor, and not only those that
// might concern protected paths.
const holdsAll = true

// holdOnly makes open(2) open any file without permission to read it.
const holdOnly = unix.O_PATH

// holdDir opens the directory at path only to hold it, which needs no permission to
// read it. It refuses one in which nothing may be changed.
func holdDir(path string) (*os.File, error) { return opener.Hold(path, unix.O_DIRECTORY) }

// holdFile is holdDir for any file. It follows links, and never waits.
func holdFile(path string) (*os.File, error) { return opener.Hold(path, 0) }

// hasDescriptorPaths reports whether descriptorPath leads anywhere. Without it there are no
// magic links either.
var hasDescriptorPaths = sync.OnceValue(func() bool { return mayLinkUnnamed() == nil })

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
