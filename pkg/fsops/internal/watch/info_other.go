//go:build !linux

package watch

import (
	"io/fs"
	"time"
)

// changeTime returns when a file was last changed, as far as is known.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }

// idOf returns what identifies a file, zero if nothing does.
func idOf(fs.FileInfo) fileID { return fileID{} }
