package fsops

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// ListOptions says what [FS.List] lists.
type ListOptions struct {
	// Recursive lists the whole tree below the directory, parents before
	// what is in them. Symbolic links are not followed.
	Recursive bool
}

// List describes what is in the directory called name, sorted by name, and
// with opts.Recursive what is in the directories below it too, each directory
// before its content. The Attr's Path is name joined to the entry's own path.
//
// An entry that vanishes meanwhile is left out. What cannot be read within the
// directory is skipped, and listed by one [*SkippedError] at the end. Every error is
// the loop's last value: also that of the directory itself, and that of ctx.
func (f *FS) List(ctx context.Context, name string, opts ListOptions) iter.Seq2[Attr, error] {
	return func(yield func(Attr, error) bool) {
		path, err := f.resolve("readdir", name)
		if err != nil {
			yield(Attr{}, err)
			return
		}
		names, err := readNames(ctx, path)
		if err != nil {
			yield(Attr{}, pathError("readdir", name, err))
			return
		}
		l := lister{ctx: ctx, root: name, recursive: opts.Recursive, yield: yield}
		if !l.entries(path, name, names) {
			return
		}
		if err := l.skipped.asError(); err != nil {
			yield(Attr{}, err)
		}
	}
}

// lister is the state of one List. Its methods report whether to go on.
type lister struct {
	ctx       context.Context
	root      string
	recursive bool
	yield     func(Attr, error) bool
	skipped   SkippedError
}

// entries lists the files called names in the directory at path, which the
// caller knows as name.
func (l *lister) entries(path, name string, names []string) bool {
	for _, base := range names {
		if err := l.ctx.Err(); err != nil {
			l.yield(Attr{}, pathError("readdir", l.root, err))
			return false
		}
		if !l.entry(filepath.Join(path, base), filepath.Join(name, base)) {
			return false
		}
	}
	return true
}

func (l *lister) entry(path, name string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return l.skip(name, err)
	}
	attr := attrOf(name, info)
	if info.Mode().Type() == fs.ModeSymlink {
		if attr.Target, err = opener.Readlink(path); err != nil {
			return l.skip(name, err)
		}
	}
	if !l.yield(attr, nil) {
		return false
	}
	if !l.recursive || !attr.IsDir() {
		return true
	}
	names, err := readNames(l.ctx, path)
	if err != nil {
		return l.skip(name, err)
	}
	return l.entries(path, name, names)
}

// skip notes what could not be read, unless it is gone.
func (l *lister) skip(name string, err error) bool {
	if isGone(err) {
		return true
	}
	if ctxErr := l.ctx.Err(); ctxErr != nil {
		l.yield(Attr{}, pathError("readdir", l.root, ctxErr))
		return false
	}
	l.skipped.Add(pathError("readdir", name, err))
	return true
}

// readNames returns the names of the directory's entries, sorted.
func readNames(ctx context.Context, path string) ([]string, error) {
	dir, err := openDir(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		batch, err := dir.Readdirnames(dirBatch)
		names = append(names, batch...)
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return names, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// openDir opens a directory, and nothing else: opening a FIFO would block.
func openDir(path string) (*os.File, error) {
	dir, _, err := opener.Open(path, os.O_RDONLY|openDirectory)
	return dir, err
}
