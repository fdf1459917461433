package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// RenameOptions says how [FS.Rename] renames.
type RenameOptions struct {
	// NoReplace fails with fs.ErrExist where the new name exists, atomically.
	NoReplace bool
}

// Rename gives the file or directory called oldName the name newName. It replaces a
// file of that name, but no directory, as [os.Rename] does. It does not copy
// between file systems: that is an error of class EXDEV. Every error is an
// [*os.LinkError]. The context ends the search for protected paths in a directory
// (see [FS.Protect]).
func (f *FS) Rename(ctx context.Context, oldName, newName string, opts RenameOptions) error {
	err := f.rename(ctx, oldName, newName, opts)
	if err == nil {
		return nil
	}
	return linkError("rename", oldName, newName, err)
}

func (f *FS) rename(ctx context.Context, oldName, newName string, opts RenameOptions) error {
	oldPath, newPath, err := f.resolveTwo("rename", oldName, newName)
	if err != nil {
		return err
	}
	from, err := f.guard(oldPath)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := f.guard(newPath)
	if err != nil {
		return err
	}
	defer to.close()
	if f.protection.Load() != nil {
		return f.renameGuarded(ctx, &from, &to, opts)
	}
	return renameAt(from.path, to.path, opts)
}

func renameAt(oldPath, newPath string, opts RenameOptions) error {
	if opts.NoReplace {
		return renameNoReplace(oldPath, newPath)
	}
	return os.Rename(oldPath, newPath)
}

// resolveTwo is resolve for an operation on two paths.
func (f *FS) resolveTwo(op, oldName, newName string) (oldPath, newPath string, err error) {
	if oldPath, err = f.resolve(op, oldName); err != nil {
		return "", "", err
	}
	newPath, err = f.resolve(op, newName)
	return oldPath, newPath, err
}

// linkError reports err for the operation op on the two paths that the caller
// named, in place of the paths or system call that err may carry.
func linkError(op, oldName, newName string, err error) error {
	return &os.LinkError{Op: op, Old: oldName, New: newName, Err: cause(err)}
}

// renameByClaim is renameNoReplace for file systems that cannot do it in one step.
// It never replaces anything: it makes the new name as a hard link, or claims it
// with a placeholder, which only one caller can make.
func renameByClaim(oldPath, newPath string) error {
	info, err := os.Lstat(oldPath)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return renameOver(oldPath, newPath, os.Mkdir(newPath, 0o700))
	}
	err = os.Link(oldPath, newPath)
	if err == nil {
		return os.Remove(oldPath)
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EXDEV) {
		return err
	}
	return renameOver(oldPath, newPath, claimFile(newPath))
}

// renameOver renames oldPath over the empty placeholder that was made at
// newPath, if claimed is nil.
func renameOver(oldPath, newPath string, claimed error) error {
	if claimed != nil {
		return claimed
	}
	// Not os.Rename, which refuses to replace an empty directory.
	err := syscall.Rename(oldPath, newPath)
	if err != nil {
		_ = os.Remove(newPath)
	}
	return err
}

func claimFile(path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return file.Close()
}
