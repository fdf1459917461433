//go:build linux || darwin

package fsops

import (
	"math"

	"golang.org/x/sys/unix"
)

// freeSpace returns how many bytes this process may still write to the file system of a
// directory, if that can be known.
func freeSpace(path string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Blocks == 0 || st.Bsize == 0 {
		return 0, false
	}
	return int64(min(st.Bavail, math.MaxInt64/uint64(st.Bsize)) * uint64(st.Bsize)), true
}
