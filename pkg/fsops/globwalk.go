package fsops

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A globber is one search.
type globber struct {
	ctx      context.Context
	pattern  string
	opts     GlobOptions
	yield    func(GlobMatch, error) bool
	m        *globs.Matcher
	dirsOnly bool
	found    int
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

// check returns an error for what the caller must not give.
func (g *globber) check() error {
	if g.opts.Limit < 0 {
		return fmt.Errorf("limit is negative: %w", syscall.EINVAL)
	}
	if g.opts.Sort < GlobUnsorted || g.opts.Sort > GlobByTime {
		return fmt.Errorf("unknown order %d: %w", g.opts.Sort, syscall.EINVAL)
	}
	return checkGlob(g.pattern)
}

// emit yields a match, or ends the search because there are too many.
func (g *globber) emit(name string, typ fs.FileMode) error {
	if g.opts.Limit > 0 && g.found == g.opts.Limit {
		g.yield(GlobMatch{Truncated: true}, nil)
		return errStop
	}
	g.found++
	if !g.yield(GlobMatch{Path: name, Type: typ}, nil) {
		return errStop
	}
	return nil
}

// top searches the directory in front of the wildcards, which itself matches
// where a double asterisk may stand for nothing.
func (g *globber) top(dir globDir) error {
	info, err := os.Stat(dir.path)
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

// unsorted yields what is found as it comes.
func (s *globSearch) unsorted() error {
	return s.walk(func(item globItem) error { return s.emit(item.path, item.typ) }, s.report)
}

// sorted yields what is found in order. What does not fit into memory it finds
// once more, in as many walks as that takes.
func (s *globSearch) sorted() error {
	sorter := newGlobSorter(s.opts.Sort)
	add := func(item globItem) error {
		sorter.add(item)
		return nil
	}
	for report := s.report; ; report = func(error) error { return nil } { // each error once
		sorter.begin(s.opts.Limit - s.found)
		if err := s.walk(add, report); err != nil {
			return err
		}
		for _, item := range sorter.end() {
			if err := s.emit(item.path, item.typ); err != nil {
				return err
			}
		}
		if !sorter.more {
			return nil
		}
		if s.opts.Limit > 0 && s.found == s.opts.Limit {
			return s.emit("", 0) // says that there is more
		}
	}
}

// walk calls take for each match that the walk finds, and report for each error,
// one after the other.
func (s *globSearch) walk(take func(globItem) error, report func(error) error) error {
	if s.self != nil {
		if err := take(*s.self); err != nil {
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
	defer context.AfterFunc(ctx, queue.end)()
	v := &globVisitor{m: s.m, dirsOnly: s.dirsOnly, byTime: s.opts.Sort == GlobByTime, dir: s.dir.name, queue: queue}
	go func() { queue.close(walk.Tree(ctx, s.dir.path, opts, v.visit)) }()
	var failure error
	err := queue.takeAll(func(batch globBatch) {
		if failure == nil && ctx.Err() == nil {
			if failure = batch.each(ctx, take, report); failure != nil {
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
