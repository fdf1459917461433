//go:build !unix

package launcher

import "io/fs"

// othersMayRead is always false: the mode says nothing here.
func othersMayRead(fs.FileMode) bool { return false }
