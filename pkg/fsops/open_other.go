//go:build !unix

package fsops

import "os"

// This platform's files do not block when they are opened.
const (
	openNonblock  = 0
	openDirectory = 0
	openNoFollow  = 0
)

// readNow reads a file.
func readNow(file *os.File, p []byte) (int, error) { return file.Read(p) }
