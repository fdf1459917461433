//go:build !unix

package fsops

import "io/fs"

// owner returns zeros, since this platform has no numeric owners.
func owner(fs.FileInfo) (uid, gid uint32) { return 0, 0 }
