package fsops

import (
	"errors"
	"fmt"
	"syscall"
)

// The errors of this package beside those of the operating system. They arrive
// wrapped in an error that names the path.
var (
	// ErrChanged says that a precondition on the file's etag did not hold.
	ErrChanged = errors.New("file changed since it was read")
	// ErrChecksum says that the content did not have the announced size or
	// checksum; nothing was written.
	ErrChecksum = errors.New("size or checksum does not match the content")
	// ErrNotRegular says that the operation needs a regular file, and found
	// a device, a FIFO or a socket, whose opening might block.
	ErrNotRegular = errors.New("not a regular file")
	// ErrUnsafeArchive says that an archive's entry would have been written
	// outside of the target directory.
	ErrUnsafeArchive = errors.New("archive entry leaves the target directory")
	// ErrBadArchive says that a tar stream is damaged, was cut off, or has an
	// entry of a kind that is not supported.
	ErrBadArchive = errors.New("not a valid archive")
	// ErrBinary says that a file, or a part of it, was not searched because it
	// is binary.
	ErrBinary = errors.New("file is binary")
)

// A PatternError describes a pattern that cannot be compiled. It matches
// syscall.EINVAL.
type PatternError struct {
	Pattern string
	// Offset is where in Pattern the offending part begins, in bytes; -1
	// when it is not known.
	Offset int
	// Msg says what is wrong.
	Msg string
}

func (e *PatternError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("invalid pattern %q: %s", e.Pattern, e.Msg)
	}
	return fmt.Sprintf("invalid pattern %q at byte %d: %s", e.Pattern, e.Offset, e.Msg)
}

// Is makes a PatternError an invalid argument for errors.Is.
func (e *PatternError) Is(target error) bool { return target == syscall.EINVAL }

// An EditError says that an edit's old text did not occur exactly once. The
// file is unchanged.
type EditError struct {
	// Index is the edit's position in the request, from 0.
	Index int
	// Count is how often the old text occurs: 0, or 2 and more.
	Count int
	// Hint, if not empty, says what near miss was found.
	Hint string
}

func (e *EditError) Error() string {
	msg := "old text not found"
	if e.Count > 0 {
		msg = fmt.Sprintf("old text occurs %d times, not once", e.Count)
	}
	if e.Index > 0 {
		msg = fmt.Sprintf("edit %d: %s", e.Index+1, msg)
	}
	if e.Hint != "" {
		msg += " (" + e.Hint + ")"
	}
	return msg
}

// A BinaryError says that a file was not searched, from Offset on, because it is
// binary. It matches [ErrBinary].
type BinaryError struct {
	// Offset is where the line with the first NUL byte begins, in bytes; 0 says
	// that nothing of the file was searched.
	Offset int64
}

func (e *BinaryError) Error() string {
	if e.Offset == 0 {
		return "file is binary, and was not searched"
	}
	return fmt.Sprintf("file is binary from byte %d on, which was not searched", e.Offset)
}

// Is makes a BinaryError an ErrBinary for errors.Is.
func (e *BinaryError) Is(target error) bool { return target == ErrBinary }
