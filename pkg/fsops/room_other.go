//go:build !linux && !darwin

package fsops

// freeSpace says that it is not known how much room there is.
func freeSpace(string) (int64, bool) { return 0, false }
