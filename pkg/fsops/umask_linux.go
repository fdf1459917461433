package fsops

import (
	"io/fs"
	"syscall"

	"github.com/podagent/podagent/pkg/procfs"
)

// umask returns the umask of this process. Linux tells it; umask(2) can only set it,
// and others make files meanwhile.
func umask() fs.FileMode {
	if mask, ok := procfs.Umask(); ok {
		return mask
	}
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fs.FileMode(mask).Perm()
}
