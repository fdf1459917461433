//go:build !unix

package fsops

import "os"

// syncDir does nothing, since directories cannot be synced here.
func syncDir(*os.File) error { return nil }
