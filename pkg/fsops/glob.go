package fsops

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/opener"
)

// GlobOptions says where and how [FS.Glob] looks.
type GlobOptions struct {
	// Dir is where a relative pattern starts; empty means the workdir.
	Dir string
	// Limit ends the search after so many matches; 0 means no limit.
	Limit int
	// NoHidden leaves out names that begin with a dot, unless the pattern
	// names the dot itself.
	NoHidden bool
	// Ignore leaves out .git, and what .gitignore, .ignore and .rgignore files,
	// the repository's info/exclude and git's core.excludesFile exclude.
	Ignore bool
	// Sort is the order of the matches.
	Sort GlobSort
	// Stats, unless nil, is set by the time the loop ends, however it ends.
	Stats *GlobStats
}

// GlobStats says what a search did.
type GlobStats struct {
	// Matches is how many matches there were. If the loop ended early, some of them
	// may not have been given.
	Matches int64
	// Truncated says that Limit ended the search while there was more.
	Truncated bool
}

// GlobSort is the order in which [FS.Glob] gives its matches.
type GlobSort int

// The orders of matches.
const (
	// GlobUnsorted gives them as they are found, which is the fastest.
	GlobUnsorted GlobSort = iota
	// GlobByName sorts by the bytes of the paths.
	GlobByName
	// GlobByTime sorts by the time of the last modification, latest first, and
	// by name where that is the same. What a symbolic link names does not
	// count.
	GlobByTime
)

// GlobMatch is one result of [FS.Glob].
type GlobMatch struct {
	// Path is relative to the directory that the search started in, or
	// absolute where the pattern was.
	Path string
	// Type holds the type bits of the file's mode.
	Type fs.FileMode
}

// Glob returns the files whose paths match the pattern, which has the syntax
// and the meaning of doublestar's Match. No shell sees it: blanks, dollar
// signs and the like are ordinary characters.
//
// A relative pattern starts in opts.Dir, and gives paths relative to it, with
// slashes between their parts; "." and ".." have their meaning in front of the
// first wildcard only. An absolute pattern gives absolute paths. A slash at
// the pattern's end has it match directories alone; the paths have none. A
// double asterisk does not follow symbolic links, whereas other parts of the
// pattern do. A pattern without wildcards matches if there is such a file,
// even a symbolic link that leads nowhere. No match is no error.
//
// Several goroutines search at once. Unsorted matches come during the search, sorted
// ones after it; with a limit, the sorted ones are the first of all.
// Up to 24 MiB of matches are sorted at once; if there are more, the tree is
// searched again for the rest.
//
// With Ignore, .gitignore files count also where there is no repository; those
// of the parent directories do so up to the repository's root, or else to the
// workdir, .ignore and .rgignore files up to the file system's root.
//
// A directory or file of rules that can't be read is skipped, as is a file of rules that
// would make the search hold more than 1 MiB or 50,000 rules at a time (EFBIG). One
// [*SkippedError] at the end lists all of them. Every error is the loop's last value: an
// invalid pattern ([*PatternError]), which is also one of more than 64 KiB, or whose
// braces stand for more than 65,536 others, a negative limit (EINVAL), a missing
// opts.Dir, and the end of ctx.
func (f *FS) Glob(ctx context.Context, pattern string, opts GlobOptions) iter.Seq2[GlobMatch, error] {
	return oneByOne(ctx, f.GlobBatches(ctx, pattern, opts))
}

// GlobBatches is Glob for a caller that hands on many matches at once. They come in
// slices of at least one match, and of about 64 KiB at most, each of which is valid
// until the loop goes on.
func (f *FS) GlobBatches(ctx context.Context, pattern string, opts GlobOptions) iter.Seq2[[]GlobMatch, error] {
	return func(yield func([]GlobMatch, error) bool) {
		g := &globber{ctx: ctx, pattern: pattern, opts: opts, yield: func(batch []GlobMatch) bool { return yield(batch, nil) }}
		err := f.glob(g)
		if opts.Stats != nil {
			*opts.Stats = g.stats
		}
		if err == nil || errors.Is(err, errGlobLimit) {
			err = g.skipped.asError()
		}
		if ctx.Err() != nil && !errors.Is(err, errStop) {
			err = pathError("glob", pattern, ctx.Err())
		}
		if err != nil && !errors.Is(err, errStop) {
			yield(nil, err)
		}
	}
}

var (
	// errStop ends a search from within. It is not reported.
	errStop = errors.New("search ended")
	// errGlobLimit says that Limit ended the search.
	errGlobLimit = errors.New("limit reached")
)

func (f *FS) glob(g *globber) error {
	if err := g.check(); err != nil {
		return pathError("glob", g.pattern, err)
	}
	if g.opts.Dir == "" {
		g.opts.Dir = f.Workdir()
	}
	root, err := f.resolve("glob", g.opts.Dir)
	if err != nil {
		return err
	}
	base, rest := globs.Split(g.pattern)
	if filepath.IsAbs(base) {
		return f.globIn(g, "", base, rest)
	}
	info, err := os.Stat(root)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("glob", g.opts.Dir, err)
	}
	return f.globIn(g, root, base, rest)
}

// globIn searches for rest in the directory base, which is relative to root, or
// absolute if that is empty.
func (f *FS) globIn(g *globber, root, base, rest string) error {
	dirsOnly := strings.HasSuffix(base, "/") && rest == ""
	if trimmed, ok := cutSlash(rest); ok {
		rest, dirsOnly = trimmed, true
	}
	dir := globDir{path: filepath.Join(root, base)}
	if clean := path.Clean(base); clean != "." || rest == "" {
		dir.name = clean
	}
	rules, ignored := f.globRules(g, root, base)
	if ignored {
		return nil
	}
	dir.rules = rules
	g.dirsOnly = dirsOnly
	if rest == "" {
		return g.literal(dir)
	}
	g.m = globs.NewMatcher(rest, g.opts.NoHidden)
	return g.top(dir)
}

// cutSlash removes a slash, plain or escaped, from the end of a valid pattern,
// and says if there was one.
func cutSlash(pattern string) (string, bool) {
	trimmed := strings.TrimRight(pattern, "/")
	if trimmed == pattern {
		return pattern, false
	}
	if escapes := len(trimmed) - len(strings.TrimRight(trimmed, `\`)); escapes%2 == 1 {
		trimmed = trimmed[:len(trimmed)-1]
	}
	return trimmed, true
}

// globRules returns the rules of the directory that a search starts in, if they
// matter, and whether they leave out that directory.
func (f *FS) globRules(g *globber, root, base string) (rules *ignore.Dir, ignored bool) {
	if !g.opts.Ignore {
		return nil, false
	}
	clean := path.Clean(base)
	at := globDir{path: root}
	if root == "" || clean == ".." || strings.HasPrefix(clean, "../") {
		at = globDir{path: filepath.Join(root, base), name: clean}
		clean = "."
	}
	rules, err := ignore.Open(at.path, f.Workdir())
	g.skipRules(at, err)
	if clean == "." {
		return rules, false
	}
	for name := range strings.SplitSeq(clean, "/") {
		at = globDir{path: filepath.Join(at.path, name), name: joinName(at.name, name)}
		info, err := os.Lstat(at.path)
		if err != nil || name == ignore.GitDir || rules.Ignored(name, info.IsDir()) {
			return nil, true
		}
		rules, err = rules.Child(name)
		g.skipRules(at, err)
	}
	return rules, false
}

// skipRules notes which files of rules in dir could not be read, if err is not nil.
func (g *globber) skipRules(dir globDir, err error) {
	if err == nil {
		return
	}
	for _, err := range ignore.Errors(err) {
		g.skipped.Add(pathError("glob", joinName(dir.name, ignore.ErrorFile(dir.path, err)), err))
	}
}

// literal yields the file that a pattern without wildcards names.
func (g *globber) literal(file globDir) error {
	item, err := g.named(file)
	if err != nil || item == nil {
		return err
	}
	return g.emit([]globItem{*item})
}

// named returns the file that the literal beginning of a pattern names, nil if there
// is none or it is not wanted.
func (g *globber) named(file globDir) (*globItem, error) {
	info, _, err := opener.Lstat(file.path)
	var modified time.Time
	if err == nil {
		modified = info.ModTime()
	}
	if err == nil && g.dirsOnly && info.Mode()&fs.ModeSymlink != 0 {
		info, err = opener.Stat(file.path)
	}
	switch {
	case err != nil && !isAbsent(err):
		return nil, pathError("glob", file.name, err)
	case err != nil || g.dirsOnly && !info.IsDir():
		return nil, nil
	}
	item := &globItem{path: file.name, typ: info.Mode().Type()}
	item.sec, item.nsec = unixTime(modified)
	return item, nil
}
