//go:build unix && !linux

package fsops

import (
	"io/fs"
	"syscall"
)

// umask returns the umask of this process. Files that others make meanwhile are
// private.
func umask() fs.FileMode {
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fs.FileMode(mask).Perm()
}
