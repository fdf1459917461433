//go:build unix

package fsops

import (
	"errors"
	"os"
	"syscall"
)

// syncDir waits until the names in the directory are on the disk.
func syncDir(dir *os.File) error {
	err := dir.Sync()
	if errors.Is(err, syscall.EINVAL) {
		return nil // a file system that has nothing to do for a directory
	}
	return err
}
