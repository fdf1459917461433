// Package eintr repeats system calls that a signal interrupted before they did anything.
// The runtime sends signals to its own threads, so such an interruption means nothing.
package eintr

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Repeat calls call until its error is not EINTR, and returns that error.
func Repeat(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Open opens a file for reading, close-on-exec. Its error is a [unix.Errno].
func Open(path string) (fd int, err error) {
	err = Repeat(func() error {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}
