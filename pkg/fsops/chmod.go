package fsops

import (
	"io/fs"
	"os"
)

// Chmod changes the permission, set-id and sticky bits of the file that name
// leads to, following symbolic links. The umask does not apply.
func (f *FS) Chmod(name string, mode fs.FileMode) error {
	path, err := f.resolve("chmod", name)
	if err != nil {
		return err
	}
	at, err := f.guardFile(path)
	if err != nil {
		return pathError("chmod", name, err)
	}
	defer at.close()
	return pathError("chmod", name, at.change(0, func() error { return os.Chmod(at.path, mode) }))
}
