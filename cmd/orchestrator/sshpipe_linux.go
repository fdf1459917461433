package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// growPipe has a pipe hold more than the 64 KiB of Linux. Where the user has too many large ones, or the file is no
// pipe, it stays as it is.
func growPipe(f *os.File) {
	c, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeSize) })
}
