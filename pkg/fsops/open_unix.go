//go:build unix

package fsops

import "syscall"

const (
	// openNonblock keeps open(2) from waiting for the other side of a FIFO or
	// device; it means nothing to a regular file.
	openNonblock = syscall.O_NONBLOCK | syscall.O_NOCTTY
	// openDirectory makes open(2) fail with ENOTDIR for all but directories.
	openDirectory = syscall.O_DIRECTORY
	// openNoFollow makes open(2) fail with ELOOP for a symbolic link.
	openNoFollow = syscall.O_NOFOLLOW
)
