package fsops

import (
	"bytes"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// umask returns the umask of this process. Linux tells it; umask(2) can only set it,
// and others make files meanwhile.
func umask() fs.FileMode {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := bytes.Cut(status, []byte("\nUmask:\t"))
	digits, _, ok := bytes.Cut(after, []byte("\n"))
	if mask, err := strconv.ParseUint(string(digits), 8, 32); ok && err == nil {
		return fs.FileMode(mask).Perm()
	}
	mask := syscall.Umask(0o077)
	syscall.Umask(mask)
	return fs.FileMode(mask).Perm()
}
