//go:build !unix

package launcher

import "io/fs"

// othersMayRead is always false, because the mode says nothing on this platform.
func othersMayRead(fs.FileMode) bool { return false }
