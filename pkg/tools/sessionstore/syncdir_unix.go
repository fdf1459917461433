//go:build unix

package sessionstore

import (
	"errors"
	"os"
	"syscall"
)

// syncDir syncs the names in a directory to the disk.
func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) {
		return nil // this file system does not sync directories
	}
	return err
}
