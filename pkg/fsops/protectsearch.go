package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A protectSearch looks for protected files in a directory that is to be removed or
// renamed.
type protectSearch struct {
	*protection
	ctx context.Context
	// patient says to pass over directories that cannot be read.
	patient bool
}

// searchedDir is a directory: the path to open it by, its real path, and its future real
// path, empty if it is to be removed.
type searchedDir struct{ path, real, as string }

func (d searchedDir) join(base string) searchedDir {
	in := searchedDir{path: filepath.Join(d.path, base), real: filepath.Join(d.real, base)}
	if d.as != "" {
		in.as = filepath.Join(d.as, base)
	}
	return in
}

// dir returns an error if something in the directory is protected, or would be under its
// new name. It reads only directories that can hold such a path.
func (s *protectSearch) dir(d searchedDir) error {
	if !s.reaches(d.real) && (d.as == "" || !s.reaches(d.as)) {
		return nil
	}
	entries, err := os.ReadDir(d.path)
	if err != nil && !s.patient && !isGone(err) {
		return err
	}
	for _, e := range entries {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if err := s.entry(d.join(e.Name()), e.Type()); err != nil {
			return err
		}
	}
	return nil
}

func (s *protectSearch) entry(e searchedDir, typ fs.FileMode) error {
	if err := s.refuse(e.real); err != nil {
		return err
	}
	if e.as != "" {
		if err := s.refuseAs(e.as, typ); err != nil {
			return err
		}
	}
	if typ.IsDir() {
		return s.dir(e)
	}
	return nil
}

// checkTree returns an error if something in the directory p is protected, as far as it
// can be read.
func (p *guardedPath) checkTree(ctx context.Context) error {
	protection, real, err := p.protected()
	if protection == nil || err != nil {
		return err
	}
	s := protectSearch{protection, ctx, true}
	return s.dir(searchedDir{path: p.path, real: real})
}

// renameGuarded is rename if something is protected. Renaming a directory moves its
// content along, so between the search and the renaming nothing may be made in the
// directory or renamed into it. A search may take long, and other changes must not wait
// for it: so it first runs without holding them up. Only if files keep changing
// meanwhile, it runs once more and holds up all other changes.
func (f *FS) renameGuarded(ctx context.Context, from, to *guardedPath, opts RenameOptions) error {
	for range renameSearches {
		seen := f.changes.Load()
		if err := mayRename(ctx, from, to); err != nil {
			return err
		}
		if done, err := f.renameUnchanged(seen, from.path, to.path, opts); done {
			return err
		}
	}
	f.renaming.Lock()
	defer f.renaming.Unlock()
	if err := mayRename(ctx, from, to); err != nil {
		return err
	}
	f.changes.Add(1)
	return renameAt(from.path, to.path, opts)
}

// renameUnchanged renames, unless an operation of this FS has changed something
// since seen.
func (f *FS) renameUnchanged(seen uint64, oldPath, newPath string, opts RenameOptions) (done bool, err error) {
	f.renaming.Lock()
	defer f.renaming.Unlock()
	if f.changes.Load() != seen {
		return false, nil
	}
	f.changes.Add(1)
	return true, renameAt(oldPath, newPath, opts)
}

// mayRename returns nil if from may be renamed to to.
func mayRename(ctx context.Context, from, to *guardedPath) error {
	info, err := os.Lstat(from.path)
	if err != nil {
		return err
	}
	typ := info.Mode().Type()
	protection, real, err := from.protected()
	if protection == nil || err != nil {
		return err
	}
	as, err := to.real()
	if err != nil {
		return err
	}
	if err := protection.refuse(real); err != nil {
		return err
	}
	if err := protection.refuseAs(as, typ); err != nil || !typ.IsDir() {
		return err
	}
	s := protectSearch{protection, ctx, false}
	err = s.dir(searchedDir{path: from.path, real: real, as: as})
	if err != nil && !errors.Is(err, ErrProtected) && ctx.Err() == nil {
		err = fmt.Errorf("cannot look for protected paths in the directory: %w", cause(err))
	}
	return err
}
