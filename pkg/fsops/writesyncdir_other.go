//go:build !unix

package fsops

import "os"

// SyncDir does nothing, since directories cannot be synced here.
func SyncDir(string) error { return nil }

// syncDir does nothing, since directories cannot be synced here.
func syncDir(*os.File) error { return nil }
