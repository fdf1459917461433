package fsops

import (
	"os"

	"golang.org/x/sys/unix"
)

// startWriteback has the kernel send n bytes from off on to the disk, without
// waiting for them. It is for speed alone, so that nobody minds a failure.
func startWriteback(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
