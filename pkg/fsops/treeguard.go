package fsops

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// This file guards protected paths from the extractor. An [os.Root] keeps it in the
// tree, but does not know where in the file system the tree is.

// change is [guardedPath.change] for a name in the directory that was entered.
func (x *extractor) change(base string, typ fs.FileMode, op func() error) error {
	if x.fsys.protection.Load() == nil {
		return op()
	}
	x.fsys.renaming.RLock()
	defer x.fsys.renaming.RUnlock()
	if err := x.check(base, typ); err != nil {
		return err
	}
	defer x.fsys.changes.Add(1)
	return op()
}

// check is [guardedPath.check] for such a name.
func (x *extractor) check(base string, typ fs.FileMode) error {
	protection := x.fsys.protection.Load()
	if protection == nil {
		return nil
	}
	if err := x.holdParent(); err != nil {
		return err
	}
	dir, err := realPathOf(x.parentFile)
	if err != nil {
		return err
	}
	return protection.refuseAs(filepath.Join(dir, base), typ)
}

// holdParent holds the directory that was entered.
func (x *extractor) holdParent() error {
	if x.parentFile != nil {
		return nil
	}
	dir, err := holdDirIn(x.parent, ".")
	if err == nil {
		x.parentFile = dir
		err = opener.MayChange(dir)
	}
	return err
}

// makeParents makes the directory called dir in the tree, and its parents.
func (x *extractor) makeParents(dir string) error {
	if x.fsys.protection.Load() == nil && !holdsAll {
		return x.root.MkdirAll(dir, 0o777)
	}
	defer x.leave()
	parent, base, err := x.enter(dir)
	if err != nil {
		return err
	}
	err = x.change(base, fs.ModeDir, func() error { return parent.Mkdir(base, 0o777) })
	if errors.Is(err, fs.ErrExist) {
		return nil // another process made it, or it is a link that leads nowhere
	}
	return err
}

// chmod and chtimes change a directory in the tree, which name may reach by a link.
func (x *extractor) chmod(name string, mode fs.FileMode) error {
	return x.onDir(name,
		func() error { return x.root.Chmod(name, mode) },
		func(path string) error { return os.Chmod(path, mode) })
}

func (x *extractor) chtimes(name string, t time.Time) error {
	return x.onDir(name,
		func() error { return x.root.Chtimes(name, time.Time{}, t) },
		func(path string) error { return os.Chtimes(path, time.Time{}, t) })
}

// onDir calls byPath for a directory that it holds, where it can, and otherwise byName.
func (x *extractor) onDir(name string, byName func() error, byPath func(path string) error) error {
	if x.fsys.protection.Load() == nil && !(holdsAll && hasDescriptorPaths()) {
		return byName()
	}
	dir, err := holdDirIn(x.root, name)
	if err != nil {
		return err
	}
	if err := opener.MayChange(dir); err != nil {
		dir.Close()
		return err
	}
	at := guardedPath{fsys: x.fsys, path: descriptorPath(dir), open: dir}
	defer at.close()
	if err := at.check(fs.ModeDir); err != nil {
		return err
	}
	return byPath(at.path)
}

// link gives the file called source in the tree a second name. It refuses a protected
// file, which could be changed by the other name.
func (x *extractor) link(source, name string) error {
	if x.fsys.protection.Load() == nil {
		return x.root.Link(source, name)
	}
	file, err := holdFileIn(x.root, source)
	if err != nil {
		return err
	}
	at := guardedPath{fsys: x.fsys, open: file}
	defer at.close()
	if err := at.check(0); err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil {
		err = mustBeRegular(info)
	}
	if err != nil {
		return err
	}
	return linkUnnamedIn(file, x.parentFile, path.Base(name))
}
