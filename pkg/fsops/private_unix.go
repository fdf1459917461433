//go:build unix

package fsops

import (
	"fmt"
	"io/fs"
	"os"
)

// CheckPrivate returns an error unless a file or directory is safe from other users: it
// belongs to this user or to root, and its mode gives no rights to anybody else. A group may
// read files of root, as a pod's group may read the Secrets that Kubernetes mounts, unless
// this user is root, who needs no group.
func CheckPrivate(info fs.FileInfo) error {
	uid, _ := owner(info)
	mode, self := info.Mode().Perm(), os.Geteuid()
	if uid == 0 && self != 0 {
		mode &^= 0o040
	}
	switch {
	case mode&0o077 != 0:
		return fmt.Errorf("others can get at it (mode %04o)", info.Mode().Perm())
	case uid != 0 && int64(uid) != int64(self):
		return fmt.Errorf("it belongs to user %d", uid)
	}
	return nil
}
