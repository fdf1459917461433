//go:build unix

package fsops

import (
	"io"
	"os"
	"syscall"
)

const (
	// openNonblock keeps open(2) from waiting for the other side of a FIFO or
	// device; it means nothing to a regular file.
	openNonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
	// openDirectory makes open(2) fail with ENOTDIR for all but directories.
	openDirectory = syscall.O_DIRECTORY
	// openNoFollow makes open(2) fail with ELOOP for a symbolic link.
	openNoFollow = syscall.O_NOFOLLOW
)

// readNow reads a file that was opened with openNonblock. It fails with EAGAIN where
// reading would wait; package os would wait there.
func readNow(file *os.File, p []byte) (n int, err error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	closed := raw.Read(func(fd uintptr) bool {
		for {
			if n, err = syscall.Read(int(fd), p); err != syscall.EINTR {
				return true
			}
		}
	})
	switch {
	case closed != nil:
		return 0, closed
	case err != nil:
		return 0, err
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}
