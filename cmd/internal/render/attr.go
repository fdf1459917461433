package render

import (
	"fmt"
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
		Path: Text(a.Path), Type: TypeName(a.Mode), Size: a.Size, Mode: Mode(a.Mode),
		ModTime: a.ModTime, UID: a.UID, GID: a.GID, ETag: a.ETag,
	}
	if a.Mode.Type() == fs.ModeSymlink {
		target := Text(a.Target)
		out.Target = &target
	}
	return out
}

// Mode returns the permission bits in octal, including the set-id and sticky bits
// in chmod(1)'s form.
func Mode(mode fs.FileMode) string {
	bits := mode.Perm()
	for _, special := range []struct{ mode, bit fs.FileMode }{
		{fs.ModeSetuid, 0o4000},
		{fs.ModeSetgid, 0o2000},
		{fs.ModeSticky, 0o1000},
	} {
		if mode&special.mode != 0 {
			bits |= special.bit
		}
	}
	return fmt.Sprintf("%04o", bits)
}
