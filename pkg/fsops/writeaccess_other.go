//go:build !linux

package fsops

import "os"

// mayWrite returns nil if this process can open the existing file at path
// for writing.
func mayWrite(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|openNonblock, 0)
	if err != nil {
		return err
	}
	return file.Close()
}

// reserve promises nothing on this platform.
func reserve(uintptr, int64) error { return nil }
