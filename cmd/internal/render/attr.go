package render

import (
	"io/fs"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
)

// Attr describes a file as JSON.
type Attr struct {
	Path    Text      `json:"path"`
	Type    string    `json:"type"`
	Size    int64     `json:"size"`
	Mode    string    `json:"mode"` // octal, as chmod takes it
	ModTime time.Time `json:"mtime"`
	UID     uint32    `json:"uid"`
	GID     uint32    `json:"gid"`
	Target  *Text     `json:"target,omitempty"`
	ETag    string    `json:"etag,omitempty"`
}

// NewAttr returns the JSON form of a.
func NewAttr(a fsops.Attr) Attr {
	out := Attr{
		Path: Text(a.Path), Type: fsops.TypeName(a.Mode), Size: a.Size, Mode: fsops.OctalMode(a.Mode),
		ModTime: a.ModTime, UID: a.UID, GID: a.GID, ETag: a.ETag,
	}
	if a.Mode.Type() == fs.ModeSymlink {
		target := Text(a.Target)
		out.Target = &target
	}
	return out
}
