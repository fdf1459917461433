package fsops

import "golang.org/x/sys/unix"

// mayWrite returns nil if this process could open the existing file at path for
// writing. It asks instead of trying: opening an executable that runs fails
// (ETXTBSY), though the file may be replaced.
func mayWrite(path string) error {
	return uninterrupted(func() error {
		return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	})
}

// reserve makes sure that the file system has room for size bytes of the
// open file, so that overwriting it does not fail halfway. File systems that
// cannot promise it promise nothing.
func reserve(fd uintptr, size int64) error {
	if size == 0 {
		return nil
	}
	for range reserveAttempts {
		err := unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, 0, size)
		if isFull(err) {
			return err
		}
		if err != unix.EINTR {
			break
		}
	}
	return nil
}
