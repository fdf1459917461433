package fsops

import (
	"io/fs"
	"os"
	"path/filepath"
)

// A guardedPath is a name in a directory, or a file, that an operation is about to
// change. The directory or file is open: what it is and its real path decide whether the
// operation may go on, and its descriptor carries it out, no matter where the caller's
// path leads by then. Where there are no descriptors to do so, it is just a path unless
// paths are protected.
type guardedPath struct {
	fsys *FS
	// path is the path that the operation uses.
	path string
	// open is the directory or file; nil for just a path.
	open *os.File
	// base is the name in the directory; empty for the open file itself.
	base string
}

// guard returns the guarded path of the name that path ends with. Its directory must
// exist. The caller closes it.
func (f *FS) guard(path string) (guardedPath, error) {
	unprotected := f.protection.Load() == nil
	if unprotected && !holdsAll {
		return guardedPath{path: path}, nil
	}
	dir, base := splitPath(path)
	if base == "" {
		base = "."
	}
	held, err := holdDir(dir)
	if err != nil {
		return guardedPath{}, err
	}
	if unprotected && !hasDescriptorPaths() {
		held.Close()
		return guardedPath{path: path}, nil
	}
	return guardedPath{f, descriptorPath(held) + string(filepath.Separator) + base, held, base}, nil
}

// guardFile returns the guarded path of the file that path leads to, which must
// exist. The caller closes it.
func (f *FS) guardFile(path string) (guardedPath, error) {
	unprotected := f.protection.Load() == nil
	if unprotected && !holdsAll {
		return guardedPath{path: path}, nil
	}
	held, err := holdFile(path)
	if err != nil {
		return guardedPath{}, err
	}
	if unprotected && !hasDescriptorPaths() {
		held.Close()
		return guardedPath{path: path}, nil
	}
	return guardedPath{fsys: f, path: descriptorPath(held), open: held}, nil
}

func (p *guardedPath) close() {
	if p.open != nil {
		p.open.Close()
		p.open = nil
	}
}

// real returns the path without symbolic links, as it is now.
func (p *guardedPath) real() (string, error) {
	path, err := realPathOf(p.open)
	return filepath.Join(path, p.base), err
}

// check returns nil if a file of this type may be made or changed there.
func (p *guardedPath) check(typ fs.FileMode) error {
	protection, real, err := p.protected()
	if protection == nil || err != nil {
		return err
	}
	return protection.refuseAs(real, typ)
}

// protected returns the protection, nil if nothing is protected, and the real path of p.
func (p *guardedPath) protected() (*protection, string, error) {
	if p.open == nil {
		return nil, "", nil
	}
	protection := p.fsys.protection.Load()
	if protection == nil {
		return nil, "", nil
	}
	real, err := p.real()
	return protection, real, err
}

// change calls op if the path may be made, replaced or changed to a file of this type.
// No operation of this FS renames a directory between the check and op. op must be
// short, since such operations wait for it.
func (p *guardedPath) change(typ fs.FileMode, op func() error) error {
	if p.open == nil || p.fsys.protection.Load() == nil {
		return op()
	}
	p.fsys.renaming.RLock()
	defer p.fsys.renaming.RUnlock()
	if err := p.check(typ); err != nil {
		return err
	}
	defer p.fsys.changes.Add(1) // after op: a search that is under way must begin again
	return op()
}

// MayChange returns nil if the file at path may be changed: see [FS.Protect]. The directory that it is in must exist.
// It is for callers who make the change themselves, without links on the way that somebody may change.
func (f *FS) MayChange(path string) error { return f.mayChange(path) }

// mayChange returns nil if the file at path may be changed.
func (f *FS) mayChange(path string) error {
	at, err := f.guard(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.check(0)
}
