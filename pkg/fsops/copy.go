package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// CopyOptions says how [FS.Copy] copies.
type CopyOptions struct {
	// Recursive copies a directory with all that is in it.
	Recursive bool
	// NoReplace fails with fs.ErrExist where the destination exists.
	NoReplace bool
}

// Copy copies the file src to the name dst, atomically as [FS.Create] does, with
// its mode and modification time; an existing file keeps its owner, and set-id bits
// are not copied. With opts.Recursive src may be a directory, which becomes the
// directory dst with all that is in it: symbolic links in it are copied as they
// are. A directory that exists already keeps its mode, and gets what is copied into
// it. A src that is a symbolic link is followed.
//
// Every error is an [*os.LinkError] that names the pair of files it is about: a
// directory without opts.Recursive is EISDIR, a file copied to itself or a
// directory into itself EINVAL, a device, FIFO or socket [ErrNotRegular]. The copy
// of a tree stops at its first error, and leaves behind what it copied.
func (f *FS) Copy(ctx context.Context, src, dst string, opts CopyOptions) error {
	srcPath, dstPath, err := f.resolveTwo("copy", src, dst)
	if err != nil {
		return linkError("copy", src, dst, err)
	}
	c := copier{ctx: ctx, fsys: f, opts: opts}
	return c.root(copyPair{srcPath, dstPath, src, dst})
}

// copier is the state of one Copy.
type copier struct {
	ctx  context.Context
	fsys *FS
	opts CopyOptions
}

// copyPair is a file and its destination: their paths, and the names by which the
// caller knows them.
type copyPair struct{ src, dst, srcName, dstName string }

func (p copyPair) join(base string) copyPair {
	return copyPair{
		filepath.Join(p.src, base), filepath.Join(p.dst, base),
		filepath.Join(p.srcName, base), filepath.Join(p.dstName, base),
	}
}

func (p copyPair) fail(err error) error {
	if err == nil {
		return nil
	}
	return linkError("copy", p.srcName, p.dstName, err)
}

func (c *copier) root(p copyPair) error {
	info, err := opener.Stat(p.src)
	if err != nil {
		return p.fail(err)
	}
	if !info.IsDir() {
		return p.fail(c.file(p))
	}
	if !c.opts.Recursive {
		return p.fail(syscall.EISDIR)
	}
	inside, err := wouldLieIn(p.dst, info)
	if err == nil && inside {
		err = syscall.EINVAL
	}
	if err != nil {
		return p.fail(err)
	}
	return c.dir(p, info)
}

// wouldLieIn is liesIn for a path whose last part need not exist.
func wouldLieIn(path string, info fs.FileInfo) (bool, error) {
	inside, err := liesIn(path, info)
	if errors.Is(err, fs.ErrNotExist) {
		return liesIn(filepath.Dir(path), info)
	}
	return inside, err
}

// file copies a regular file. Its error does not name the pair.
func (c *copier) file(p copyPair) error {
	from, info, err := openRegular(p.src)
	if err != nil {
		return err
	}
	defer from.Close()
	if to, err := os.Stat(p.dst); err == nil && os.SameFile(info, to) && !c.opts.NoReplace {
		return syscall.EINVAL
	}
	w, err := c.fsys.Create(p.dst, WriteOptions{Perm: info.Mode().Perm(), Exclusive: c.opts.NoReplace})
	if err != nil {
		return err
	}
	defer w.Close()
	w.stamp = &stamp{mode: info.Mode().Perm(), modTime: info.ModTime()}
	if err := c.fsys.copyRange(c.ctx, from, ReadOptions{}, w, new(Sum)); err != nil {
		return err
	}
	_, err = w.Commit(c.ctx, w.sum)
	return err
}

// dir copies the directory that info describes, with all that is in it.
func (c *copier) dir(p copyPair, info fs.FileInfo) error {
	made, err := c.makeDir(p.dst)
	if err != nil {
		return p.fail(err)
	}
	names, err := readNames(c.ctx, p.src)
	if err != nil {
		return p.fail(err)
	}
	for _, base := range names {
		if err := c.entry(p.join(base)); err != nil {
			return err
		}
	}
	if !made {
		return nil
	}
	// This comes last: the mode may forbid adding entries, and adding changes the time.
	return p.fail(c.stampDir(p.dst, info))
}

// stampDir gives a new directory the mode and time of its original.
func (c *copier) stampDir(path string, info fs.FileInfo) error {
	at, err := c.fsys.guardFile(path)
	if err != nil {
		return err
	}
	defer at.close()
	return at.change(fs.ModeDir, func() error {
		if err := os.Chmod(at.path, info.Mode()&(fs.ModePerm|fs.ModeSticky)); err != nil {
			return err
		}
		return os.Chtimes(at.path, info.ModTime(), info.ModTime())
	})
}

// makeDir makes the directory unless it exists.
func (c *copier) makeDir(path string) (made bool, err error) {
	err = c.fsys.makeDir(path, 0o700)
	if err == nil || c.opts.NoReplace || !errors.Is(err, fs.ErrExist) {
		return err == nil, err
	}
	info, serr := os.Lstat(path)
	if serr == nil && info.IsDir() {
		return false, nil
	}
	return false, err
}

// entry copies what is in a directory.
func (c *copier) entry(p copyPair) error {
	if err := c.ctx.Err(); err != nil {
		return p.fail(err)
	}
	info, err := os.Lstat(p.src)
	switch {
	case err != nil:
		return p.fail(err)
	case info.IsDir():
		return c.dir(p, info)
	case info.Mode().Type() == fs.ModeSymlink:
		return p.fail(c.symlink(p))
	}
	return p.fail(c.file(p))
}

// symlink copies a symbolic link, and replaces a link or file that exists.
func (c *copier) symlink(p copyPair) error {
	target, err := opener.Readlink(p.src)
	if err != nil {
		return err
	}
	at, err := c.fsys.guard(p.dst)
	if err != nil {
		return err
	}
	defer at.close()
	return at.change(fs.ModeSymlink, func() error { return c.linkTo(target, at.path) })
}

func (c *copier) linkTo(target, path string) error {
	err := os.Symlink(target, path)
	if !errors.Is(err, fs.ErrExist) || c.opts.NoReplace {
		return err
	}
	temp, err := atFreeName(filepath.Dir(path), func(path string) error { return os.Symlink(target, path) })
	if err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		_ = os.Remove(temp)
		return err
	}
	return nil
}
