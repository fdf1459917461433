package fsops

import (
	"io/fs"
	"path"
	"time"
)

// Attr describes a file, as stat(2) does.
type Attr struct {
	// Path is the path as the caller would name it: the requested path, or an
	// entry's joined to the listed directory.
	Path string
	// Size is the length in bytes.
	Size int64
	// Mode holds the type and the permission bits.
	Mode fs.FileMode
	// ModTime has the file system's resolution, at best a nanosecond.
	ModTime time.Time
	// UID and GID own the file; 0 if the platform has no such numbers.
	UID, GID uint32
	// Target is what a symbolic link names, unresolved; empty otherwise.
	Target string
	// ETag identifies this state of the file's content: it changes whenever
	// the content may have changed. Opaque; compare for equality only.
	ETag string
}

// IsDir reports whether a describes a directory.
func (a Attr) IsDir() bool { return a.Mode.IsDir() }

// FileInfo returns a as an [fs.FileInfo] whose Sys method returns a.
func (a Attr) FileInfo() fs.FileInfo { return fileInfo{a} }

type fileInfo struct{ attr Attr }

func (i fileInfo) Name() string       { return path.Base(i.attr.Path) }
func (i fileInfo) Size() int64        { return i.attr.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.attr.Mode }
func (i fileInfo) ModTime() time.Time { return i.attr.ModTime }
func (i fileInfo) IsDir() bool        { return i.attr.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.attr }
