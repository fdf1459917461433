//go:build unix

package launcher

import "io/fs"

// othersMayRead reports whether a mode lets anyone but the owner read.
func othersMayRead(mode fs.FileMode) bool { return mode&0o077 != 0 }
