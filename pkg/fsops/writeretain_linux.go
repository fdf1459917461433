package fsops

import "golang.org/x/sys/unix"

// retain keeps the file at path, which is about to be replaced, until release
// is called. To let go of the content of a large file takes long (60 ms for 256
// MiB in memory), which nobody needs to wait for.
func retain(path string) (release func()) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	return func() { go unix.Close(fd) }
}
