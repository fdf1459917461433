//go:build !unix

package fsops

import "io/fs"

// CheckPrivate returns nil: owners and modes say nothing on this platform.
func CheckPrivate(fs.FileInfo) error { return nil }
