package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// statx describes a file, and no link's target.
func statx(dir int, name string, st *unix.Statx_t) error {
	for {
		err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, st)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func nanos(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func deviceOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// readlink returns what a symbolic link names.
func readlink(dir int, name string) (string, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := unix.Readlinkat(dir, name, buf)
		if err != nil {
			return "", err
		}
		if n < size {
			return string(buf[:n]), nil
		}
	}
}

// openRegular opens a file that whoever can write to the store may have replaced: it waits for nobody, and follows
// no link. What is no regular file is ErrCorrupt.
func openRegular(path string) (*os.File, int64, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: %s is a link", ErrCorrupt, filepath.Base(path))
	case errors.Is(err, unix.ENXIO):
		err = fmt.Errorf("%w: %s is a socket", ErrCorrupt, filepath.Base(path))
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: %s is no file", ErrCorrupt, filepath.Base(path))
	}
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, info.Size(), nil
}
