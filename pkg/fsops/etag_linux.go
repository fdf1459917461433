package fsops

import (
	"io/fs"
	"syscall"
)

// etag identifies the state of the file's content. The inode changes with an
// atomic replacement, the change time with a write in place: unlike the
// modification time it cannot be set back.
func etag(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return digest(info.Size(), info.ModTime().UnixNano())
	}
	return digest(int64(st.Dev), int64(st.Ino), st.Size,
		st.Mtim.Nano(), st.Ctim.Nano())
}
