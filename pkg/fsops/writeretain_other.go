//go:build !linux

package fsops

// retain does nothing: only Linux has descriptors that need no permission.
func retain(string) (release func()) { return func() {} }
