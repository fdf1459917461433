package fsops

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ExtractOptions says how [FS.Extract] treats an archive.
type ExtractOptions struct {
	// OutsideLinks allows symbolic links whose target is absolute or leads out of
	// the directory, such as the link to the interpreter in a Python environment.
	// Nothing is ever written through them.
	OutsideLinks bool
	// KeepModes sets the modes as the archive has them. Otherwise the umask of this
	// process applies.
	KeepModes bool
	// MaxBytes is how many bytes of files are unpacked at most. 0 means as many as leave a
	// tenth of what is free on the file system now, or 1 GiB if that is less; no bound if
	// the file system does not tell. Less than 0 means no bound.
	MaxBytes int64
	// MaxEntries is how many entries the archive may have. 0 means ten million, less
	// than 0 no bound.
	MaxEntries int64
}

// Extract unpacks a tar stream, of [FS.Archive] or of another program, into the
// directory dir, which is made if it is missing. It reads r to its end. Only zeros
// may follow the end of the archive.
//
// Directories are merged with those that exist. Another file replaces a file of its
// name atomically; if a directory has that name, that is an error. Modes (without
// the set-id bits) and modification times are set, except those of symbolic links. The
// files belong to this process's user.
//
// Nothing is written outside of dir, whatever the archive holds, and even if others
// change the tree meanwhile. These entries end the extraction with
// [ErrUnsafeArchive]: one whose name is absolute or has a ".." in it, one that
// would be written through a symbolic link that leads out, and, without
// opts.OutsideLinks, a link that leads out itself. A device or FIFO ends it with
// [ErrNotRegular]. A stream that is no tar stream, or has sparse files or entries
// of unknown types, is [ErrBadArchive]; one that ends before the archive does is an
// [io.ErrUnexpectedEOF] as well. An archive that is larger than opts.MaxBytes or
// opts.MaxEntries allow, or has more than some 400000 directories, is EFBIG, or ENOSPC if
// the file system gets full. An error names its entry, or dir. After an error
// the entries before it are there as the archive has them, and there is no part of
// a file. That holds even if this process is killed, where the platform has unnamed
// files.
func (f *FS) Extract(ctx context.Context, dir string, r io.Reader, opts ExtractOptions) (TreeStats, error) {
	path, err := f.resolve("extract", dir)
	if err != nil {
		return TreeStats{}, err
	}
	if err := f.makeParents(path, fs.ModePerm); err != nil {
		return TreeStats{}, pathError("extract", dir, err)
	}
	at, err := f.guardFile(path)
	if err != nil {
		return TreeStats{}, pathError("extract", dir, err)
	}
	defer at.close()
	root, err := os.OpenRoot(at.path)
	if err != nil {
		return TreeStats{}, pathError("extract", dir, err)
	}
	defer root.Close()
	x := &extractor{
		ctx: ctx, fsys: f, name: dir, root: root, opts: opts,
		in:   &archiveReader{ctx: ctx, r: r},
		buf:  make([]byte, blockSize),
		dirs: make(map[string]dirMeta),
		size: newTreeSize(at.path, opts),
	}
	if !opts.KeepModes {
		x.umask = umask()
	}
	defer x.leave()
	err = x.run()
	return x.stats, err
}

// An extractor unpacks one archive.
type extractor struct {
	ctx   context.Context
	fsys  *FS
	name  string // as the caller named the tree
	root  *os.Root
	opts  ExtractOptions
	in    *archiveReader
	buf   []byte
	stats TreeStats
	size  treeSize
	umask fs.FileMode

	// parent is the directory of the latest entry; the next entry is likely to be in
	// it, too. parentName is its path in root.
	parent     *os.Root
	parentName string
	// parentFile is the same directory, held for linkUnnamedIn and for its
	// path; nil until one of them needs it.
	parentFile *os.File
	// dirs are the directories, by name, whose modes and times are set at the end:
	// unpacking files in them needs other modes, and changes the times. A directory
	// that an archive repeats takes no more memory.
	dirs map[string]dirMeta
}

type dirMeta struct {
	mode fs.FileMode
	time time.Time
}

func (x *extractor) run() error {
	err := x.unpack()
	// Even after an error, the entries that are there are as in the archive.
	if finishErr := x.finishDirs(); err == nil {
		err = finishErr
	}
	return err
}

func (x *extractor) unpack() error {
	archive := tar.NewReader(x.in)
	for {
		x.in.zeros = 0
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			if err := x.end(); err != nil {
				return x.fail(x.name, err)
			}
			return nil
		}
		if err != nil {
			return x.fail(x.name, x.readError(err))
		}
		if err := x.size.addEntry(h); err != nil {
			return x.fail(h.Name, err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // comments, as of "git archive"
		}
		if err := x.entry(h, archive); err != nil {
			return x.fail(h.Name, err)
		}
	}
}

// end checks that the archive has its end, two blocks of zeros. The tar package
// does not insist on them, and a stream that was cut between two entries would look
// whole. Before the end, at most two things follow the last entry's content:
// padding of less than a block, or the extended header of a missing entry, which is
// not zeros.
func (x *extractor) end() error {
	const endSize = 2 * 512
	if x.in.zeros < endSize {
		return fmt.Errorf("%w: it has no end: %w", ErrBadArchive, io.ErrUnexpectedEOF)
	}
	for {
		_, err := x.in.Read(x.buf)
		if x.in.other {
			return fmt.Errorf("%w: something follows its end", ErrBadArchive)
		}
		if x.in.zeros > maxTreePadding {
			return fmt.Errorf("%w: more than %d MiB of zeros follow its end", ErrBadArchive, maxTreePadding>>20)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return x.readError(err)
		}
	}
}

// readError tells faults of the archive from errors of its source. It is a fault of the
// archive if the source says that it was cut off.
func (x *extractor) readError(err error) error {
	if x.in.failed == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrBadArchive, err)
	}
	return fmt.Errorf("cannot read the archive: %w", x.in.failed)
}

// archiveReader counts the zeros at the end of what was read, and fails when ctx
// ends.
type archiveReader struct {
	ctx   context.Context
	r     io.Reader
	zeros int64 // in a row, up to now
	other bool  // whether the latest read gave anything but zeros
	// failed is the error of r or ctx that ended it, other than io.EOF.
	failed error
}

func (a *archiveReader) Read(p []byte) (int, error) {
	if a.failed = a.ctx.Err(); a.failed != nil {
		return 0, a.failed
	}
	n, err := a.r.Read(p)
	rest := bytes.TrimRight(p[:n], "\x00")
	if a.other = len(rest) > 0; a.other {
		a.zeros = 0
	}
	a.zeros += int64(n - len(rest))
	if !errors.Is(err, io.EOF) {
		a.failed = err
	}
	return n, err
}

// fail names the entry that an error is about, or the tree if ctx ended, and makes
// an escape an [ErrUnsafeArchive].
func (x *extractor) fail(name string, err error) error {
	switch ended := x.ctx.Err(); {
	case x.escapes(err):
		err = fmt.Errorf("%w through a symbolic link", ErrUnsafeArchive)
	case ended != nil && errors.Is(err, ended):
		name, err = x.name, ended
	}
	return pathError("extract", name, err)
}

// escapes reports whether err says that a path leads out of an [os.Root]. Package
// os does not export that error, so it is compared with one that is provoked.
func (x *extractor) escapes(err error) bool {
	_, escape := x.root.Lstat("..")
	return errors.Is(err, cause(escape))
}

// entry unpacks one entry.
func (x *extractor) entry(h *tar.Header, content io.Reader) error {
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return syscall.EISDIR
		}
		return nil // the tree's root stays as it is
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.dir(name, h)
	case tar.TypeReg:
		err = x.regular(name, h, content)
	case tar.TypeSymlink:
		err = x.symlink(name, h.Linkname)
	case tar.TypeLink:
		err = x.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		err = ErrNotRegular
	default:
		err = fmt.Errorf("%w: entries of type %q are not supported", ErrBadArchive, h.Typeflag)
	}
	if err == nil {
		x.stats.Entries++
	}
	return err
}

// localName returns the cleaned name of an entry, and an error if it leads out of
// the tree.
func localName(name string) (string, error) {
	if strings.IndexByte(name, 0) >= 0 || name == "" {
		return "", fmt.Errorf("%w: name is empty or holds a NUL byte", ErrBadArchive)
	}
	if path.IsAbs(name) || slices.Contains(strings.Split(name, "/"), "..") || !filepath.IsLocal(filepath.FromSlash(name)) {
		return "", ErrUnsafeArchive
	}
	return path.Clean(name), nil
}

// finishDirs sets the modes and times of directories, each after those in it. It goes on
// after an error, and returns the first.
func (x *extractor) finishDirs() error {
	var first error
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(x.dirs))) {
		meta := x.dirs[name]
		err := x.chtimes(name, meta.time)
		if err == nil {
			err = x.chmod(name, meta.mode)
		}
		if err != nil && first == nil {
			first = x.fail(name, err)
		}
	}
	return first
}
