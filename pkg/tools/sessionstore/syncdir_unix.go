//go:build unix

package sessionstore

import (
	"errors"
	"os"
	"syscall"
)

// syncDir has the names in a directory reach the disk.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) {
		return nil // a file system that has nothing to do for a directory
	}
	return err
}
