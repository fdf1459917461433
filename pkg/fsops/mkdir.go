package fsops

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MkdirOptions says how [FS.Mkdir] makes a directory.
type MkdirOptions struct {
	// Perm is the mode; 0 means 0o777. The umask applies.
	Perm fs.FileMode
	// Parents makes missing parents, and does not mind if the directory
	// exists.
	Parents bool
}

// Mkdir makes the directory called name. Where something else has that name
// the error is fs.ErrExist, also with opts.Parents.
func (f *FS) Mkdir(name string, opts MkdirOptions) error {
	path, err := f.resolve("mkdir", name)
	if err != nil {
		return err
	}
	return pathError("mkdir", name, makeDir(path, opts))
}

func makeDir(path string, opts MkdirOptions) error {
	perm := opts.Perm
	if perm == 0 {
		perm = fs.ModePerm
	}
	if !opts.Parents {
		return os.Mkdir(path, perm)
	}
	// The parents do not get opts.Perm, which may lack what it takes to make
	// something in them.
	if err := os.MkdirAll(filepath.Dir(path), fs.ModePerm); err != nil {
		return err
	}
	err := os.Mkdir(path, perm)
	if errors.Is(err, fs.ErrExist) {
		if info, serr := os.Stat(path); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}
