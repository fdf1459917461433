//go:build !unix

package sessionstore

// syncDir does nothing, since directories cannot be synced here.
func syncDir(string) error { return nil }
