package walk

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// A SortedEntry is a file of the tree that [Sorted] goes through, or an error in
// place of one.
type SortedEntry struct {
	// Rel is the path below the root, with slashes between its parts; it is
	// empty for the root.
	Rel string
	// Path is where the file is.
	Path string
	// Type holds the type bits of the file's mode.
	Type fs.FileMode
	// Err is as in [Entry].
	Err error
}

// Sorted yields every entry below the directory root in the order of the paths'
// bytes, directories before what is in them. It is for results that must come in that
// order; [Tree] is faster. It holds the names of one directory per level in memory, and
// opens directories by their paths.
//
// It leaves out the same entries as [Tree], and yields the same with an Err; it uses no
// Workers and no Value. The loop's end ends it, and so does ctx, also between entries that
// are left out.
func Sorted(ctx context.Context, root string, opts Options) iter.Seq[SortedEntry] {
	return func(yield func(SortedEntry) bool) {
		w := &sortedWalk{ctx: ctx, opts: opts, next: &SortedEntry{Path: root, Type: fs.ModeDir}, rules: opts.Ignore}
		for e, ok := w.step(); ok && yield(e); {
			e, ok = w.step()
		}
	}
}

// A sortedWalk is one walk of [Sorted].
type sortedWalk struct {
	ctx   context.Context
	opts  Options
	stack []*sortedDir
	next  *SortedEntry // a directory that is yet to be entered
	// failed are the entries with an Err that come first.
	failed []SortedEntry
	rules  *ignore.Dir // of the directory that next is in, or next itself
}

type sortedDir struct {
	entry   SortedEntry
	rules   *ignore.Dir
	entries []fs.DirEntry
}

// step returns the next entry, and false at the end, or that of the context. A directory
// whose content can't be read comes twice, the second time with an error.
func (w *sortedWalk) step() (SortedEntry, bool) {
	if w.next != nil {
		dir := *w.next
		w.next = nil
		w.enter(dir)
	}
	if len(w.failed) > 0 {
		e := w.failed[0]
		w.failed = w.failed[1:]
		return e, true
	}
	for len(w.stack) > 0 && w.ctx.Err() == nil {
		top := w.stack[len(w.stack)-1]
		if len(top.entries) == 0 {
			if len(w.stack) > 1 { // the root's are the caller's
				top.rules.Release()
			}
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		d := top.entries[0]
		top.entries = top.entries[1:]
		if e, ok := w.visit(top, d); ok {
			return e, true
		}
	}
	return SortedEntry{}, false
}

// visit makes the entry for d, unless the options leave it out.
func (w *sortedWalk) visit(dir *sortedDir, d fs.DirEntry) (SortedEntry, bool) {
	name := d.Name()
	e := SortedEntry{Rel: path.Join(dir.entry.Rel, name), Path: filepath.Join(dir.entry.Path, name), Type: d.Type()}
	if w.opts.hides(dir.rules, name, d.IsDir()) || w.opts.Prune != nil && w.opts.Prune(e.Rel, e.Type) {
		return e, false
	}
	if linked, ok := d.(linkedEntry); ok {
		e.Err = w.check(linked)
	}
	if d.IsDir() && e.Err == nil {
		w.next, w.rules = &e, nil
		if name != ignore.GitDir { // which has no rules of its own
			w.rules = dir.rules
		}
	}
	return e, true
}

// enter reads a directory. The files that could be read are walked, also if others
// could not.
func (w *sortedWalk) enter(e SortedEntry) {
	entries, err := readDir(e.Path)
	if err != nil && e.Rel != "" && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) {
		err = nil // removed since its name was read
	}
	if w.opts.Follow {
		followLinks(e.Path, entries)
	}
	sortAsPaths(entries)
	dir := &sortedDir{entry: e, rules: w.rules, entries: entries}
	w.stack = append(w.stack, dir)
	if err != nil {
		w.fail(e, e.Rel, err)
	}
	if dir.rules == nil || e.Rel == "" {
		return
	}
	var rulesErr error
	if dir.rules, rulesErr = dir.rules.Enter(path.Base(e.Rel), "", rulesAmong(entries, err == nil)); rulesErr == nil || err != nil {
		return
	}
	for _, err := range ignore.Errors(rulesErr) {
		w.fail(e, path.Join(e.Rel, ignore.ErrorFile(e.Path, err)), err)
	}
}

// readDir returns the entries of a directory, as far as they can be read.
func readDir(path string) ([]fs.DirEntry, error) {
	dir, _, err := opener.Open(path, os.O_RDONLY|openDirectory)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.ReadDir(-1)
}

// fail adds an entry with an error.
func (w *sortedWalk) fail(e SortedEntry, rel string, err error) {
	e.Rel, e.Err = rel, err
	w.failed = append(w.failed, e)
}

// rulesAmong returns which files of rules there may be in a directory: those among
// the entries, if they are all.
func rulesAmong(entries []fs.DirEntry, all bool) ignore.Files {
	if !all {
		return ignore.AllFiles
	}
	var files ignore.Files
	for _, entry := range entries {
		files |= ignore.FileOf(entry.Name())
	}
	return files
}

// A linkedEntry is the file that a symbolic link names, or the link with an error.
type linkedEntry struct {
	fs.DirEntry
	info fs.FileInfo
	err  error
}

func (e linkedEntry) IsDir() bool { return e.err == nil && e.info.IsDir() }

func (e linkedEntry) Type() fs.FileMode {
	if e.err != nil {
		return fs.ModeSymlink
	}
	return e.info.Mode().Type()
}

// followLinks replaces links by the files that they name.
func followLinks(dir string, entries []fs.DirEntry) {
	for i, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			entries[i] = linkedEntry{DirEntry: e, info: info, err: err}
		}
	}
}

// check returns why a link is not to be followed.
func (w *sortedWalk) check(link linkedEntry) error {
	if !link.IsDir() {
		return link.err
	}
	for _, d := range w.stack {
		if above, err := os.Stat(d.entry.Path); err == nil && os.SameFile(above, link.info) {
			return ErrCycle
		}
	}
	return nil
}

// sortAsPaths sorts by the bytes of the paths that lie below: a directory as
// if its name ended in a slash.
func sortAsPaths(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int {
		return comparePaths(a.Name(), a.IsDir(), b.Name(), b.IsDir())
	})
}

func comparePaths(a string, aDir bool, b string, bDir bool) int {
	n := min(len(a), len(b))
	if c := strings.Compare(a[:n], b[:n]); c != 0 || len(a) == len(b) {
		return c
	}
	if len(a) == n && aDir {
		return int('/') - int(b[n])
	}
	if len(b) == n && bDir {
		return int(a[n]) - int('/')
	}
	return len(a) - len(b)
}
