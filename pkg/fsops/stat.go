package fsops

import (
	"io/fs"
	"os"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// Stat describes the file that name leads to, following symbolic links.
func (f *FS) Stat(name string) (Attr, error) {
	path, err := f.resolve("stat", name)
	if err != nil {
		return Attr{}, err
	}
	info, err := opener.Stat(path)
	if err != nil {
		return Attr{}, pathError("stat", name, err)
	}
	return attrOf(name, info), nil
}

// Lstat describes the file called name. It does not follow a symbolic link,
// but says in Target what the link names.
func (f *FS) Lstat(name string) (Attr, error) {
	path, err := f.resolve("lstat", name)
	if err != nil {
		return Attr{}, err
	}
	info, target, err := opener.Lstat(path)
	if err != nil {
		return Attr{}, pathError("lstat", name, err)
	}
	attr := attrOf(name, info)
	attr.Target = target
	return attr, nil
}

// attrOf returns the attributes in info for the file called name. They lack the target
// of a link.
func attrOf(name string, info fs.FileInfo) Attr {
	uid, gid := owner(info)
	return Attr{
		Path:    name,
		Size:    info.Size(),
		Mode:    info.Mode(),
		ModTime: info.ModTime(),
		UID:     uid,
		GID:     gid,
		ETag:    etag(info),
	}
}

// stateOf returns what os.Lstat says about path, nil if there is no such file.
func stateOf(path string) (fs.FileInfo, error) {
	info, err := os.Lstat(path)
	if isGone(err) {
		return nil, nil
	}
	return info, err
}
