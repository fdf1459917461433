package fsops

import (
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Symlink makes a symbolic link called name that names target. The target is stored
// as it is; it need not exist, and a relative one starts in the link's own
// directory. Every error is an [*os.LinkError].
func (f *FS) Symlink(target, name string) error {
	path, err := f.resolve("symlink", name)
	if err == nil && strings.IndexByte(target, 0) >= 0 {
		err = syscall.EINVAL
	}
	if err == nil {
		err = f.symlink(target, path)
	}
	if err == nil {
		return nil
	}
	return linkError("symlink", target, name, err)
}

func (f *FS) symlink(target, path string) error {
	at, err := f.guard(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.change(fs.ModeSymlink, func() error { return os.Symlink(target, at.path) })
}
