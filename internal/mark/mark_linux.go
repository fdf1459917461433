package mark

import "golang.org/x/sys/unix"

// Settable reports whether this process may set a limit of its own to what it is, as anyone may on Linux.
// gVisor lets nobody set those that it does not use.
func Settable(resource int) bool {
	var own unix.Rlimit
	return unix.Prlimit(0, resource, nil, &own) == nil && unix.Prlimit(0, resource, &own, nil) == nil
}
