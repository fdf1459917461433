package fsops

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/opener"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// TreeStats counts what a tree transfer moved.
type TreeStats struct {
	// Entries is the number of files, directories and links.
	Entries int64
	// Bytes is the sum of the regular files' sizes.
	Bytes int64
	// Skipped is the number of devices, FIFOs and sockets, which an archive
	// leaves out.
	Skipped int64
}

// Trees travel as tar streams in the PAX format, which keeps names of any
// bytes and times to the nanosecond. Names are relative to the tree's root,
// which has no entry of its own. Owners are not carried.

// ArchiveOptions says what [FS.Archive] leaves out.
type ArchiveOptions struct {
	// Ignore leaves out what .gitignore files exclude. It keeps .git, with all that
	// is in it: a work tree needs its history.
	Ignore bool
	// Exclude leaves out what matches one of these globs in doublestar's syntax,
	// directories with all that is in them. A glob without a slash is matched
	// against the base name, others against the path in the archive; these may begin
	// with a slash. A glob that ends with a slash matches directories alone.
	Exclude []string
}

// Archive writes a tar stream of the directory's content to w, in the order of
// the paths' bytes, directories before what is in them. Symbolic links are
// archived as they are, hard links as separate files. Devices, FIFOs and
// sockets are skipped, and counted. A regular file in place of a directory
// makes an archive of one entry, its base name. What is removed while the
// archive is made may or may not be in it.
//
// An error names the file, whether it can't be read, its size changes while it is
// read ([ErrChanged]), its ignore rules are too many (EFBIG, see [FS.Glob]), or w
// fails. It leaves the stream without its end, so that [FS.Extract] does not take it
// for whole. If ctx ends, or a glob is not valid ([*PatternError]), the error names the
// tree.
func (f *FS) Archive(ctx context.Context, name string, w io.Writer, opts ArchiveOptions) (TreeStats, error) {
	a := &archiver{ctx: ctx, name: name, tar: tar.NewWriter(archiveWriter{w}), buf: make([]byte, blockSize)}
	err := f.archive(a, opts)
	if err == nil {
		err = a.fail(name, a.tar.Close())
	}
	return a.stats, err
}

func (f *FS) archive(a *archiver, opts ArchiveOptions) error {
	path, err := f.resolve("archive", a.name)
	if err != nil {
		return err
	}
	exclude, err := newGlobSet(opts.Exclude)
	if err != nil {
		return pathError("archive", a.name, fmt.Errorf("cannot exclude files: %w", err))
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return pathError("archive", a.name, err)
	case !info.IsDir():
		return a.fail(a.name, a.regular(walk.SortedEntry{Rel: filepath.Base(path), Path: path}))
	}
	which := walk.Options{Prune: func(rel string, typ fs.FileMode) bool { return exclude.Match(rel, typ == fs.ModeDir) }}
	if opts.Ignore {
		if which.Ignore, err = ignore.Open(path, f.Workdir()); err != nil {
			err = ignore.Errors(err)[0]
			return pathError("archive", joinName(a.name, ignore.ErrorFile(path, err)), err)
		}
	}
	return a.entries(walk.Sorted(a.ctx, path, which))
}

// An archiver writes one archive.
type archiver struct {
	ctx   context.Context
	name  string // as the caller named the tree
	tar   *tar.Writer
	buf   []byte
	stats TreeStats
}

// entries writes the entries of a tree.
func (a *archiver) entries(all iter.Seq[walk.SortedEntry]) error {
	for e := range all {
		err := e.Err
		if err == nil {
			err = a.entry(e)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed since its directory was read
		}
		if err != nil {
			return a.fail(joinName(a.name, e.Rel), err)
		}
	}
	return a.fail(a.name, a.ctx.Err())
}

// fail names the file that an error is about, or the tree if ctx ended.
func (a *archiver) fail(name string, err error) error {
	var writing writerError
	switch ended := a.ctx.Err(); {
	case err == nil:
		return nil
	case ended != nil && errors.Is(err, ended):
		name, err = a.name, ended
	case errors.As(err, &writing):
		err = fmt.Errorf("cannot write the archive: %w", writing.error)
	}
	return pathError("archive", name, err)
}

// An archiveWriter returns the errors of the caller's writer as a writerError.
type archiveWriter struct{ w io.Writer }

func (w archiveWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		err = writerError{err}
	}
	return n, err
}

func (a *archiver) entry(e walk.SortedEntry) error {
	switch e.Type {
	case 0:
		return a.regular(e)
	case fs.ModeDir:
		info, err := os.Lstat(e.Path)
		if err != nil {
			return err
		}
		return a.header(e.Rel+"/", tar.TypeDir, "", info)
	case fs.ModeSymlink:
		info, target, err := opener.Lstat(e.Path)
		if err != nil {
			return err
		}
		return a.header(e.Rel, tar.TypeSymlink, target, info)
	}
	a.stats.Skipped++
	return nil
}

// header writes the header of an entry.
func (a *archiver) header(name string, typ byte, target string, info fs.FileInfo) error {
	h := &tar.Header{
		Format:   tar.FormatPAX,
		Typeflag: typ,
		Name:     name,
		Linkname: target,
		Mode:     int64(info.Mode().Perm()),
		ModTime:  info.ModTime(),
	}
	if info.Mode()&fs.ModeSticky != 0 {
		h.Mode |= tarSticky
	}
	if typ == tar.TypeReg {
		h.Size = info.Size()
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	a.stats.Entries++
	a.stats.Bytes += h.Size
	return nil
}

// tarSticky is the bit of a tar header's mode for [fs.ModeSticky].
const tarSticky = 0o1000

// regular writes a regular file, exactly as many bytes as the header says.
func (a *archiver) regular(e walk.SortedEntry) error {
	file, info, err := openRegular(e.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := a.header(e.Rel, tar.TypeReg, "", info); err != nil {
		return err
	}
	for rest := info.Size(); rest > 0; {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		n, err := file.Read(a.buf[:min(rest, int64(len(a.buf)))])
		if errors.Is(err, io.EOF) {
			return errResized
		}
		if err != nil {
			return err
		}
		if _, err := a.tar.Write(a.buf[:n]); err != nil {
			return err
		}
		rest -= int64(n)
	}
	if n, _ := file.Read(a.buf[:1]); n > 0 {
		return errResized
	}
	return nil
}

// errResized ends an archive, since its header would be wrong.
var errResized = fmt.Errorf("size changed while it was archived: %w", ErrChanged)
