package spawn

import "time"

// The bounds of a start, each with its reason.
const (
	// firstLook is the time after which a child that is stopped is ended. It is a hundred
	// times what a start takes on a busy machine.
	firstLook = time.Second
	// longestStart is the time after which a child is ended in any case. A program may come
	// from a file system that fetches it just then.
	longestStart = 30 * time.Second
)
