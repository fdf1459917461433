//go:build unix

package fsops

import (
	"errors"
	"os"
	"syscall"
)

// SyncDir waits until the names in a directory are on the disk, where the file system can
// do that.
func SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return syncDir(dir)
}

// syncDir waits until the names in the directory are on the disk.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) {
		return nil // a file system that has nothing to do for a directory
	}
	return err
}
