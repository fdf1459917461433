package fsops

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// MkdirOptions says how [FS.Mkdir] makes a directory.
type MkdirOptions struct {
	// Perm is the mode; 0 means 0o777. The umask applies.
	Perm fs.FileMode
	// Parents makes missing parents with the same mode, as os.MkdirAll does, and
	// accepts a directory that exists.
	Parents bool
}

// Mkdir makes the directory called name. If something else has that name, the error
// is fs.ErrExist, with opts.Parents too.
func (f *FS) Mkdir(name string, opts MkdirOptions) error {
	path, err := f.resolve("mkdir", name)
	if err != nil {
		return err
	}
	return pathError("mkdir", name, f.mkdir(path, opts))
}

func (f *FS) mkdir(path string, opts MkdirOptions) error {
	perm := opts.Perm
	if perm == 0 {
		perm = fs.ModePerm
	}
	if !opts.Parents {
		return f.makeDir(path, perm)
	}
	if err := f.makeParents(filepath.Dir(path), perm); err != nil {
		return err
	}
	err := f.makeDir(path, perm)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrPermission) {
		if info, serr := os.Stat(path); serr == nil && info.IsDir() {
			return nil
		}
	}
	return err
}

// makeDir makes one directory.
func (f *FS) makeDir(path string, perm fs.FileMode) error {
	at, err := f.guard(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.change(fs.ModeDir, func() error { return os.Mkdir(at.path, perm) })
}

// makeParents makes the directory at path and its parents, unless they exist. It guards
// each by itself.
func (f *FS) makeParents(path string, perm fs.FileMode) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return syscall.ENOTDIR
	}
	if dir, base := splitPath(path); base != "" {
		if err := f.makeParents(dir, perm); err != nil {
			return err
		}
	}
	err = f.makeDir(path, perm)
	if info, statErr := os.Lstat(path); err != nil && statErr == nil && info.IsDir() {
		return nil // another process made it
	}
	return err
}
