package fsops

import (
	"io/fs"
	"os"
	"path/filepath"
)

// A place is a name in a directory, or an open file, where an operation is to
// change something. Where paths are protected, what is open is what counts: its
// real path says if the operation may, and through its descriptor it is done,
// whatever the caller's path leads to by then. Where nothing is protected a
// place is a path, and costs nothing.
type place struct {
	fsys *FS
	// path is where the operation finds the place.
	path string
	// open is what path leads through; nil where nothing is protected.
	open *os.File
	// base is the name in that directory; empty for what is open itself.
	base string
}

// place returns the place that path names, whose directory must exist. The
// caller closes it.
func (f *FS) place(path string) (place, error) {
	if f.protection.Load() == nil {
		return place{path: path}, nil
	}
	dir, base := splitPath(path)
	if base == "" {
		base = "."
	}
	held, err := holdDir(dir)
	if err != nil {
		return place{}, err
	}
	return place{f, descriptorPath(held) + string(filepath.Separator) + base, held, base}, nil
}

// placeOf returns the place of the file that path leads to, which must exist.
// The caller closes it.
func (f *FS) placeOf(path string) (place, error) {
	if f.protection.Load() == nil {
		return place{path: path}, nil
	}
	held, err := holdFile(path)
	if err != nil {
		return place{}, err
	}
	return place{fsys: f, path: descriptorPath(held), open: held}, nil
}

func (p *place) close() {
	if p.open != nil {
		p.open.Close()
		p.open = nil
	}
}

// real returns the path without symbolic links, as it is now.
func (p *place) real() (string, error) {
	path, err := realPathOf(p.open)
	return filepath.Join(path, p.base), err
}

// check returns why nothing of this type may be put at the place; nil if it may.
func (p *place) check(typ fs.FileMode) error {
	protection, real, err := p.protected()
	if protection == nil || err != nil {
		return err
	}
	return protection.refuseAs(real, typ)
}

// protected returns what is protected, nil for nothing, and the place's real
// path.
func (p *place) protected() (*protection, string, error) {
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

// change has op make, replace or change what is at the place, which gets this
// type, if it may. Nobody who uses this FS renames a directory between the
// check and op, which is to be short therefore.
func (p *place) change(typ fs.FileMode, op func() error) error {
	if p.open == nil {
		return op()
	}
	p.fsys.renaming.RLock()
	defer p.fsys.renaming.RUnlock()
	if err := p.check(typ); err != nil {
		return err
	}
	defer p.fsys.changes.Add(1) // behind op: who searched before must search again
	return op()
}

// mayChange returns why the file at path may not be changed.
func (f *FS) mayChange(path string) error {
	at, err := f.place(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.check(0)
}
