package fsops

import (
	"fmt"
	"syscall"
)

// A room is what has to stay free on a file system, however much comes from a source that
// is not trusted. The zero value bounds nothing.
type room struct {
	path      string // of a directory of the file system
	reserve   int64  // bytes
	unchecked int64  // bytes on the disk since the room was looked at
}

// newRoom keeps a tenth of what is free now, maxReserve at most, if the file system tells
// what is free.
func newRoom(path string) room {
	free, ok := freeSpace(path)
	if !ok {
		return room{}
	}
	return room{path: path, reserve: min(free/10, maxReserve)}
}

// use takes bytes on the disk into account, and looks now and then whether there is
// still room. Most of the reserve stays free.
func (r *room) use(n int) error {
	if r.reserve == 0 {
		return nil
	}
	if r.unchecked += int64(n); r.unchecked < min(roomStep, r.reserve/4) {
		return nil
	}
	r.unchecked = 0
	if free, ok := freeSpace(r.path); ok && free < r.reserve {
		return fmt.Errorf("only %d MiB are free: %w", free>>20, syscall.ENOSPC)
	}
	return nil
}
