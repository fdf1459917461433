package fsops

import "golang.org/x/sys/unix"

// uninterrupted repeats a system call that a signal interrupted. The Go
// runtime sends itself signals, and network file systems heed them; package
// os does the same for the calls that it makes.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}
