package fsops

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/opener"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A globber is one search.
type globber struct {
	ctx      context.Context
	pattern  string
	opts     GlobOptions
	yield    func([]GlobMatch) bool
	batch    []GlobMatch
	m        *globs.Matcher
	dirsOnly bool
	stats    GlobStats
	skipped  SkippedError
}

// A globDir is a directory that a search starts in.
type globDir struct {
	path  string // where it is
	name  string // as it is reported; empty for the directory searched from
	rules *ignore.Dir
}

// A globItem is a match. It is small, since many may have to be sorted.
type globItem struct {
	path string
	typ  fs.FileMode
	// When the file was modified, if that matters (see [time.Unix]).
	nsec int32
	sec  int64
}

// check returns an error for invalid options.
func (g *globber) check() error {
	if g.opts.Limit < 0 {
		return fmt.Errorf("limit is negative: %w", syscall.EINVAL)
	}
	if g.opts.Sort < GlobUnsorted || g.opts.Sort > GlobByTime {
		return fmt.Errorf("unknown order %d: %w", g.opts.Sort, syscall.EINVAL)
	}
	return checkGlob(g.pattern)
}

// emit yields matches, or ends the search because there are too many.
func (g *globber) emit(items []globItem) error {
	size := 0
	for i := range items {
		if g.full() {
			g.stats.Truncated = true
			return cmp.Or(g.pass(), errGlobLimit)
		}
		g.stats.Matches++
		g.batch = append(g.batch, GlobMatch{Path: items[i].path, Type: items[i].typ})
		if size += len(items[i].path); len(g.batch) >= globTogether || size >= globTogetherSize {
			if err := g.pass(); err != nil {
				return err
			}
			size = 0
		}
	}
	return g.pass()
}

// pass yields the matches that emit has gathered.
func (g *globber) pass() error {
	if err := g.ctx.Err(); err != nil {
		return pathError("glob", g.pattern, err)
	}
	if len(g.batch) > 0 && !g.yield(g.batch) {
		return errStop
	}
	clear(g.batch) // holds on to nothing
	g.batch = g.batch[:0]
	return nil
}

// full reports whether there are as many matches as are wanted.
func (g *globber) full() bool { return g.opts.Limit > 0 && g.stats.Matches == int64(g.opts.Limit) }

// top searches the directory in front of the wildcards, which itself matches
// where a double asterisk may stand for nothing.
func (g *globber) top(dir globDir) error {
	info, err := opener.Stat(dir.path)
	switch {
	case err != nil && !isAbsent(err):
		return pathError("glob", dir.shown(), err)
	case err != nil:
		return nil
	}
	search := &globSearch{globber: g, dir: dir}
	if dir.name != "" && g.m.AcceptsNothing() {
		if search.self, err = g.named(dir); err != nil {
			return err
		}
	}
	switch {
	case !info.IsDir() && search.self == nil:
		return nil
	case g.opts.Sort == GlobUnsorted:
		return search.unsorted()
	}
	return search.sorted()
}

// shown returns a name for the directory in an error.
func (d globDir) shown() string { return cmp.Or(d.name, ".") }

// joinName is path.Join for a name that must stay as it is.
func joinName(dir, name string) string {
	if dir == "" || strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

// A globSearch is the search of one directory.
type globSearch struct {
	*globber
	dir globDir
	// self is the directory as a match, if it is one.
	self *globItem
}

// unsorted yields matches as they are found.
func (s *globSearch) unsorted() error {
	return s.walk(s.emit, s.skipped.Add)
}

// sorted yields matches in order. It finds those that do not fit into memory once more,
// in as many walks as necessary.
func (s *globSearch) sorted() error {
	sorter := newGlobSorter(s.opts.Sort)
	add := func(items []globItem) error {
		for _, item := range items {
			sorter.add(item)
		}
		return nil
	}
	for skip := s.skipped.Add; ; skip = func(error) {} { // each error once
		sorter.begin(s.opts.Limit - int(s.stats.Matches))
		if err := s.walk(add, skip); err != nil {
			return err
		}
		if err := s.emit(sorter.end()); err != nil {
			return err
		}
		if !sorter.more {
			return nil
		}
		if s.full() {
			return s.emit([]globItem{{}}) // says that there is more
		}
	}
}

// walk calls take for the matches that the walk finds, and skip for each error of a
// directory that it could not read, one after the other.
func (s *globSearch) walk(take func([]globItem) error, skip func(error)) error {
	if s.self != nil {
		if err := take([]globItem{*s.self}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	opts := walk.Options{
		Workers: min(runtime.GOMAXPROCS(0), maxGlobWorkers),
		NoGit:   s.opts.Ignore,
		Ignore:  s.dir.rules,
		Value:   s.m.Start(),
	}
	queue := newGlobQueue(opts.Workers)
	defer queue.end() // also if the loop's body panics
	defer context.AfterFunc(ctx, queue.end)()
	v := &globVisitor{m: s.m, dirsOnly: s.dirsOnly, byTime: s.opts.Sort == GlobByTime, dir: s.dir.name, queue: queue}
	go func() { queue.close(walk.Tree(ctx, s.dir.path, opts, v.visit)) }()
	var failure error
	err := queue.takeAll(func(batch globBatch) {
		if failure == nil && ctx.Err() == nil {
			for _, err := range batch.errs {
				skip(err)
			}
			if failure = take(batch.items); failure != nil {
				cancel()
			}
		}
	})
	switch {
	case failure != nil:
		return failure
	case s.ctx.Err() != nil:
		return pathError("glob", s.pattern, s.ctx.Err())
	}
	return err
}
