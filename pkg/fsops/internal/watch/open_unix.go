//go:build unix

package watch

import "syscall"

// openDirectory makes open(2) fail with ENOTDIR for all but directories, and so
// never wait for a FIFO.
const openDirectory = syscall.O_DIRECTORY
