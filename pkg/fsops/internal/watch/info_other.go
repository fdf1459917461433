//go:build !linux

package watch

import (
	"io/fs"
	"time"
)

// changeTime returns when the content last changed; no more is known here.
func changeTime(info fs.FileInfo) time.Time { return info.ModTime() }

// idOf returns zero: nothing identifies a file here.
func idOf(fs.FileInfo) fileID { return fileID{} }
