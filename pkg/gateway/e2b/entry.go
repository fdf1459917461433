package e2b

import (
	"context"
	"io/fs"
	"path"
	"strconv"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
)

// The types of files that the SDKs know.
const (
	typeFile      = "FILE_TYPE_FILE"
	typeDirectory = "FILE_TYPE_DIRECTORY"
	typeSymlink   = "FILE_TYPE_SYMLINK"
	typeOther     = "FILE_TYPE_UNSPECIFIED" // the SDKs leave it out of lists
)

// entryInfo describes a file. Type and Mode of a symbolic link are those of what it leads to, if there
// is anything.
type entryInfo struct {
	Name          string     `json:"name"`
	Type          string     `json:"type"`
	Path          string     `json:"path"`
	Size          int64      `json:"size,string"`
	Mode          uint32     `json:"mode"`        // the permissions
	Permissions   string     `json:"permissions"` // as "ls -l" shows them, nearly
	Owner         string     `json:"owner"`
	Group         string     `json:"group"`
	ModifiedTime  *time.Time `json:"modifiedTime,omitempty"`
	SymlinkTarget *string    `json:"symlinkTarget,omitempty"`
}

// plainEntry describes a file that is no symbolic link.
func plainEntry(a fsops.Attr) *entryInfo {
	e := &entryInfo{
		Name: faces.Text(path.Base(a.Path)), Type: typeOf(a.Mode), Path: faces.Text(a.Path), Size: a.Size,
		Mode: uint32(a.Mode.Perm()), Permissions: a.Mode.String(), Owner: userName(a.UID), Group: userName(a.GID),
	}
	if y := a.ModTime.UTC().Year(); 1 <= y && y <= 9999 { // what a timestamp can have
		e.ModifiedTime = new(a.ModTime.UTC())
	}
	return e
}

// entryOf describes a file as plainEntry does, and looks where a symbolic link leads to.
func entryOf(ctx context.Context, s *launcher.Sandbox, a fsops.Attr) (*entryInfo, error) {
	e := plainEntry(a)
	if a.Mode.Type() != fs.ModeSymlink {
		return e, nil
	}
	target := a.Target
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(a.Path), target)
	}
	e.SymlinkTarget = new(faces.Text(target))
	to, err := s.Stat(ctx, a.Path)
	switch {
	case err == nil:
		e.Type, e.Mode = typeOf(to.Mode), uint32(to.Mode.Perm())
	case ctx.Err() != nil || !faces.IsAboutFile(err):
		return nil, err
	}
	return e, nil
}

func typeOf(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return typeFile
	case fs.ModeDir:
		return typeDirectory
	case fs.ModeSymlink:
		return typeSymlink
	}
	return typeOther
}

// userName returns the name of an owner. Of names in the sandbox the agent knows nothing, but root is
// the same everywhere.
func userName(id uint32) string {
	if id == 0 {
		return "root"
	}
	return strconv.FormatUint(uint64(id), 10)
}
