package fsops

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A walkEntry is a file below the directory that is walked.
type walkEntry struct {
	// rel is the path below the root, with '/' between its parts; the root
	// itself is "".
	rel string
	// path is where the file is.
	path string
	typ  fs.FileMode
	// err is why a directory, or a file with rules of what to ignore, could
	// not be read; the walk goes on without it.
	err error
}

// walkOptions says what a walker leaves out, each directory with all that is
// in it, and whether it follows symbolic links.
type walkOptions struct {
	// noHidden leaves out names that begin with a dot, but for .git and for
	// what the rules of ignore name as not to be ignored.
	noHidden bool
	// noGit leaves out .git.
	noGit bool
	// ignore, if not nil, is the root's rules for what to leave out.
	ignore *ignore.Dir
	// exclude leaves out what matches one of them.
	exclude globSet
	// except leaves out what has one of these paths below the root.
	except map[string]bool
	// follow visits what symbolic links name in place of the links.
	follow bool
}

// A walker visits a tree in the order of its paths' bytes, directories before
// what is in them, for results that are wanted in that order as they come;
// [walk.Tree] is faster, and has none. It holds one directory's names per level.
type walker struct {
	opts  walkOptions
	stack []*walkDir
	next  *walkEntry // a directory that is yet to be entered
	rules *ignore.Dir
}

type walkDir struct {
	entry   walkEntry
	rules   *ignore.Dir
	entries []fs.DirEntry
}

// newWalker walks the directory at path.
func newWalker(path string, opts walkOptions) *walker {
	return &walker{opts: opts, next: &walkEntry{path: path, typ: fs.ModeDir}, rules: opts.ignore}
}

// Next returns the next entry, and false at the end. A directory whose content
// can't be read comes twice, the second time with an error.
func (w *walker) Next() (walkEntry, bool) {
	if w.next != nil {
		dir := *w.next
		w.next = nil
		if err := w.enter(&dir); err != nil {
			dir.err = err
			return dir, true
		}
	}
	for len(w.stack) > 0 {
		top := w.stack[len(w.stack)-1]
		if len(top.entries) == 0 {
			w.stack = w.stack[:len(w.stack)-1]
			continue
		}
		d := top.entries[0]
		top.entries = top.entries[1:]
		if e, ok := w.visit(top, d); ok {
			return e, true
		}
	}
	return walkEntry{}, false
}

// visit makes the entry for d, unless the options leave it out.
func (w *walker) visit(dir *walkDir, d fs.DirEntry) (walkEntry, bool) {
	name := d.Name()
	e := walkEntry{rel: path.Join(dir.entry.rel, name), path: filepath.Join(dir.entry.path, name), typ: d.Type()}
	verdict := ignore.Unknown
	switch {
	case name == ignore.GitDir:
		if w.opts.noGit {
			return e, false
		}
		verdict = ignore.Keep
	case dir.rules != nil:
		verdict = dir.rules.Verdict(name, d.IsDir())
	}
	if verdict == ignore.Ignore || verdict == ignore.Unknown && w.opts.noHidden && name[0] == '.' {
		return e, false
	}
	if w.opts.exclude.match(e.rel, d.IsDir()) || w.opts.except[e.rel] {
		return e, false
	}
	if linked, ok := d.(linkedEntry); ok {
		e.err = w.check(linked)
	}
	if d.IsDir() && e.err == nil {
		w.next, w.rules = &e, nil
		if name != ignore.GitDir { // which has no rules of its own
			w.rules = dir.rules
		}
	}
	return e, true
}

// enter reads a directory. Its error may concern a part of it alone: the
// files that could be read are walked. If the error is about a file of rules,
// e becomes that file.
func (w *walker) enter(e *walkEntry) error {
	entries, err := os.ReadDir(e.path)
	if err != nil && e.rel != "" && isGone(err) {
		err = nil // removed since its name was read
	}
	if w.opts.follow {
		followLinks(e.path, entries)
	}
	sortAsPaths(entries)
	dir := &walkDir{entry: *e, rules: w.rules, entries: entries}
	w.stack = append(w.stack, dir)
	if dir.rules == nil || e.rel == "" {
		return err
	}
	var rulesErr error
	files := ignore.AllFiles
	if err == nil {
		files = 0
		for _, entry := range entries {
			files |= ignore.FileOf(entry.Name())
		}
	}
	dir.rules, rulesErr = dir.rules.Enter(path.Base(e.rel), "", files)
	if err == nil && rulesErr != nil {
		e.rel = path.Join(e.rel, ignore.ErrorFile(e.path, rulesErr))
		return rulesErr
	}
	return err
}

// A linkedEntry is what a symbolic link names, or the link with an error.
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

// followLinks puts what links name in their place.
func followLinks(dir string, entries []fs.DirEntry) {
	for i, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			info, err := os.Stat(filepath.Join(dir, e.Name()))
			entries[i] = linkedEntry{DirEntry: e, info: info, err: err}
		}
	}
}

// check returns why a link is not to be followed.
func (w *walker) check(link linkedEntry) error {
	if !link.IsDir() {
		return link.err
	}
	for _, d := range w.stack {
		if above, err := os.Stat(d.entry.path); err == nil && os.SameFile(above, link.info) {
			return walk.ErrCycle
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
