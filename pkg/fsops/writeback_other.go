//go:build !linux

package fsops

import "os"

// startWriteback does nothing: only Linux has a system call for it.
func startWriteback(*os.File, int64, int64) {}
