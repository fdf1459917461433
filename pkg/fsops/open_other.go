//go:build !unix

package fsops

// This platform's files do not block when they are opened.
const (
	openNonblock  = 0
	openDirectory = 0
	openNoFollow  = 0
)
