//go:build unix

package fsops

import (
	"io/fs"
	"syscall"
)

// owner returns who owns the file.
func owner(info fs.FileInfo) (uid, gid uint32) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Uid, st.Gid
	}
	return 0, 0
}
