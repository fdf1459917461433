package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// Grep searches files for lines that match a regular expression of RE2's
// syntax, which Go's package regexp documents. Each line is matched by itself:
// ^ and $ are its ends, and nothing matches the newline. A carriage return in
// front of the newline is part of the Text, but not of what is matched, unless
// the pattern names it; so $ matches before it.
//
// Directories are searched with all that is below them, except for what the
// options leave out. Symbolic links are followed where opts.Paths names them,
// and nowhere else; what is no regular file is never opened. A .gitignore file
// counts also where there is no repository, as do those of the parent
// directories up to the repository's root, or else to the workdir. What
// opts.Paths names is searched even if it is hidden or ignored; Include and
// Exclude apply to it too.
//
// A file with a NUL byte in its first 256 KiB is left out; at a later one its
// search ends with the line before. Both are said ([GrepBinary]). Of a line of
// more than 16 MiB the beginning is searched, and a [GrepFileError] says so.
// Text is cut to 4 KiB; a match that begins after the cut has no
// Span.
//
// An invalid pattern or glob ([*PatternError]), a number that is negative or too
// large (EINVAL), and the end of ctx end the search with an error that names the
// pattern. So does a path that does not exist, if it is the only one; else it is
// a GrepFileError. Up to four files are searched at once; those with lines over
// a megabyte one by one, and of those only a few in all searches of the FS, so
// that one may wait for the others.
func (f *FS) Grep(ctx context.Context, pattern string, opts GrepOptions) iter.Seq2[GrepResult, error] {
	return func(yield func(GrepResult, error) bool) {
		g, err := f.newGrep(pattern, opts)
		if err == nil {
			err = g.run(ctx, func(r GrepResult) bool { return yield(r, nil) })
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(GrepResult{}, err)
		}
	}
}

// A grep is one search.
type grep struct {
	pattern string
	opts    GrepOptions
	matcher lineMatcher
	include globSet
	exclude globSet
	roots   []*grepRoot
	// longLines is shared by all searches of the FS.
	longLines *budget

	stats GrepStats
	// more says that the limit is reached, and what remains is to find out
	// whether there is more.
	more bool
	last GrepResult // the latest match
}

// newGrep checks everything that the caller gave.
func (f *FS) newGrep(pattern string, opts GrepOptions) (*grep, error) {
	g := &grep{pattern: pattern, opts: opts, longLines: f.longLines}
	if err := g.compile(); err != nil {
		return nil, pathError("grep", pattern, err)
	}
	if len(opts.Paths) == 0 {
		opts.Paths = []string{"."}
	}
	for _, name := range opts.Paths {
		root, err := f.grepRoot(g, name)
		if err != nil && len(opts.Paths) == 1 {
			return nil, err
		}
		g.roots = append(g.roots, root)
	}
	return g, nil
}

// compile checks and prepares the pattern and the options.
func (g *grep) compile() error {
	err := g.opts.check()
	if err != nil {
		return err
	}
	if g.matcher, err = compileGrep(g.pattern, g.opts.IgnoreCase); err != nil {
		return err
	}
	if g.include, err = newGlobSet(g.opts.Include); err != nil {
		return fmt.Errorf("cannot include files: %w", err)
	}
	if g.exclude, err = newGlobSet(g.opts.Exclude); err != nil {
		return fmt.Errorf("cannot exclude files: %w", err)
	}
	return nil
}

// check returns an error of class EINVAL for numbers that mean nothing.
func (o GrepOptions) check() error {
	if o.Before < 0 || o.After < 0 || o.Before > maxGrepContext || o.After > maxGrepContext {
		return fmt.Errorf("cannot give %d and %d context lines (at most %d): %w", o.Before, o.After, maxGrepContext, syscall.EINVAL)
	}
	if o.Limit < 0 || o.MaxPerFile < 0 {
		return fmt.Errorf("limit is negative: %w", syscall.EINVAL)
	}
	return nil
}

// A grepRoot yields the files of one searched path, in order.
type grepRoot struct {
	name string
	walk *walker // of a directory
	head []grepEntry
}

// A grepEntry is a file to search, or an error in place of one.
type grepEntry struct {
	name string // as it is reported
	path string // where it is
	err  error
}

// grepRoot looks at a searched path. Its error is in the root as well.
func (f *FS) grepRoot(g *grep, name string) (*grepRoot, error) {
	path, err := f.resolve("grep", name)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	root := &grepRoot{name: filepath.ToSlash(filepath.Clean(name))}
	switch {
	case err != nil:
		err = pathError("grep", name, err)
		root.head = []grepEntry{{name: name, err: err}}
	case !info.IsDir():
		if g.selects(filepath.Base(path)) {
			root.head = []grepEntry{{name: root.name, path: path}}
		}
	default:
		f.walkRoot(g, root, path)
	}
	return root, err
}

func (f *FS) walkRoot(g *grep, root *grepRoot, path string) {
	opts := walkOptions{noHidden: !g.opts.Hidden, noGit: !g.opts.NoIgnore, exclude: g.exclude}
	if !g.opts.NoIgnore {
		var err error
		if opts.ignore, err = ignore.Open(path, f.Workdir()); err != nil {
			name := root.join(rulesFile(path, err))
			root.head = append(root.head, grepEntry{name: name, err: pathError("grep", name, err)})
		}
	}
	root.walk = newWalker(path, opts)
}

// selects reports whether the options want the file with that path below the
// directory that is searched.
func (g *grep) selects(rel string) bool {
	return (g.include.empty() || g.include.match(rel)) && !g.exclude.match(rel)
}

// next returns the root's next file.
func (r *grepRoot) next(g *grep) (grepEntry, bool) {
	if len(r.head) > 0 {
		e := r.head[0]
		r.head = r.head[1:]
		return e, true
	}
	if r.walk == nil {
		return grepEntry{}, false
	}
	for e, ok := r.walk.Next(); ok; e, ok = r.walk.Next() {
		file := grepEntry{name: r.join(e.rel), path: e.path}
		if e.err != nil {
			file.err = pathError("grep", file.name, e.err)
			return file, true
		}
		if e.typ.IsRegular() && g.selects(e.rel) {
			return file, true
		}
	}
	return grepEntry{}, false
}

// join returns the name that a file below the root is reported by.
func (r *grepRoot) join(rel string) string {
	switch {
	case rel == "":
		return r.name
	case r.name == ".":
		return rel
	}
	return joinName(r.name, rel)
}

// files yields the files of all roots in the order of their names, each once.
func (g *grep) files() iter.Seq[grepEntry] {
	return func(yield func(grepEntry) bool) {
		heads := make([]*grepEntry, len(g.roots))
		advance := func(i int) {
			heads[i] = nil
			if e, ok := g.roots[i].next(g); ok {
				heads[i] = &e
			}
		}
		for i := range g.roots {
			advance(i)
		}
		last := ""
		for {
			first := firstEntry(heads)
			if first < 0 {
				return
			}
			e := *heads[first]
			if (e.err != nil || e.name != last) && !yield(e) {
				return
			}
			if e.err == nil {
				last = e.name
			}
			advance(first)
		}
	}
}

// firstEntry returns which of the entries comes first, -1 if there is none.
func firstEntry(heads []*grepEntry) int {
	first := -1
	for i, e := range heads {
		if e != nil && (first < 0 || strings.Compare(e.name, heads[first].name) < 0) {
			first = i
		}
	}
	return first
}

// errGrepLimit says that Limit ended the search.
var errGrepLimit = errors.New("limit reached")

// take passes a result of a file's search on, unless the limit was reached.
func (g *grep) take(r GrepResult, yield func(GrepResult) bool) error {
	switch {
	case r.Kind == GrepMatch && g.more:
		return errGrepLimit
	case r.Kind == GrepMatch:
		g.stats.Matches++
		g.last = r
		g.more = g.opts.Limit > 0 && g.stats.Matches == int64(g.opts.Limit)
	case r.Kind == GrepContext && g.more:
		// It may stand before a match that is beyond the limit.
		if r.Path != g.last.Path || r.Line > g.last.Line+int64(g.opts.After) {
			return nil
		}
	case g.more && r.Kind != GrepFileError && r.Path != g.last.Path:
		return nil
	}
	if !yield(r) {
		return errStop
	}
	return nil
}
