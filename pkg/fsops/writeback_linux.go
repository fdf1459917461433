package fsops

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback makes the kernel send n bytes from off on to the disk, and does
// not wait for them. It is for speed alone: a failure does no harm.
func startWriteback(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
