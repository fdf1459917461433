package fsops

import "golang.org/x/sys/unix"

// retain keeps the file at path, which is about to be replaced, until release is
// called. The kernel needs long to free the content of a large file (60 ms for 256
// MiB in memory); no caller needs to wait for that.
func retain(path string) (release func()) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	return func() { go unix.Close(fd) }
}
