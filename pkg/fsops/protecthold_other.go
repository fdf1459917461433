//go:build !linux

package fsops

import (
	"os"
	"path/filepath"
)

// holdsAll says that changes are made through descriptors only if paths are protected.
const holdsAll = false

// holdOnly keeps open(2) from waiting.
const holdOnly = os.O_RDONLY | openNonblock

func hasDescriptorPaths() bool { return true }

// holdDir opens the directory at path by its real path. That path is what counts,
// since nothing can be reached through the descriptor here.
func holdDir(path string) (*os.File, error) { return holdFile(path) }

// holdFile is holdDir for any file.
func holdFile(path string) (*os.File, error) {
	if _, err := os.Stat(path); err != nil { // its errors have a class
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(real, os.O_RDONLY|openNonblock, 0)
}

// holdDirIn is holdDir for a name in root.
func holdDirIn(root *os.Root, name string) (*os.File, error) { return root.Open(name) }

// holdFileIn is holdFile for a name in root.
func holdFileIn(root *os.Root, name string) (*os.File, error) { return root.Open(name) }

// realPathOf returns the real path of an open file.
func realPathOf(file *os.File) (string, error) { return filepath.EvalSymlinks(file.Name()) }
