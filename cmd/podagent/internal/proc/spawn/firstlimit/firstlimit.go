// Package firstlimit knows the limit of open files that the program was started with. Go
// programs raise it to the maximum before main, and give it back to what they start; but
// nothing says what it was.
//
// It imports nothing, so that it is initialized before package os, which raises the limit:
// of the packages whose imports are initialized, the first in the order of their paths
// comes next (https://go.dev/ref/spec#Program_initialization).
package firstlimit

// Files is the soft and the hard limit, and zero if they are not known.
var Files struct{ Soft, Hard uint64 }

func init() {
	if getFileLimit(&Files) != 0 {
		Files.Soft, Files.Hard = 0, 0
	}
}

// getFileLimit is prlimit64(0, RLIMIT_NOFILE, NULL, limit). It returns what the kernel does.
//
//go:noescape
func getFileLimit(limit *struct{ Soft, Hard uint64 }) int64
