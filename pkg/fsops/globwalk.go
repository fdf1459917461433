package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// A globber is one search.
type globber struct {
	ctx      context.Context
	pattern  string
	opts     GlobOptions
	yield    func(GlobMatch, error) bool
	m        *globMatcher
	dirsOnly bool
	found    int
}

// A globDir is a directory of a search.
type globDir struct {
	path  string // where it is
	rel   string // below the directory that the matcher starts in
	name  string // as it is reported; empty for the directory searched from
	state globState
	rules *ignore.Dir
}

// check returns an error for what the caller must not give.
func (g *globber) check() error {
	if g.opts.Limit < 0 {
		return fmt.Errorf("limit is negative: %w", syscall.EINVAL)
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
	case dir.name != "" && g.m.acceptsNothing(dir.state):
		if err := g.literal(dir); err != nil {
			return err
		}
	}
	if !info.IsDir() {
		return nil
	}
	return g.dir(dir)
}

// shown returns a name for the directory in an error.
func (d globDir) shown() string {
	if d.name == "" {
		return "."
	}
	return d.name
}

// A globStep is a thing to do with a file in a directory: to match it, or to
// search what is in it. These are two, because other names may come between
// a directory and what is in it when paths are sorted.
type globStep struct {
	entry fs.DirEntry
	state globState
	inner bool
}

// dir searches one directory.
func (g *globber) dir(dir globDir) error {
	entries, err := os.ReadDir(dir.path)
	if err != nil && !isGone(err) {
		if err := g.report(pathError("glob", dir.shown(), err)); err != nil {
			return err
		}
	}
	for i, step := range g.steps(dir, entries) {
		if i%dirBatch == 0 && g.ctx.Err() != nil {
			break
		}
		if err := g.step(dir, step); err != nil {
			return err
		}
	}
	return pathError("glob", g.pattern, g.ctx.Err())
}

// steps lists what is to be done for the entries, in order.
func (g *globber) steps(dir globDir, entries []fs.DirEntry) []globStep {
	steps := make([]globStep, 0, len(entries))
	for _, e := range entries {
		if dir.rules != nil && (e.Name() == gitDir || dir.rules.Ignored(e.Name(), e.IsDir())) {
			continue
		}
		next, linked := g.m.step(dir.state, e.Name())
		if len(next) > 0 {
			steps = append(steps, globStep{entry: e, state: next})
		}
		inner := next
		if !e.IsDir() {
			inner = linked
		}
		if (e.IsDir() || e.Type()&fs.ModeSymlink != 0) && g.m.descends(inner) {
			steps = append(steps, globStep{entry: e, state: inner, inner: true})
		}
	}
	if g.opts.Sort {
		slices.SortFunc(steps, func(a, b globStep) int {
			return comparePaths(a.entry.Name(), a.inner, b.entry.Name(), b.inner)
		})
	}
	return steps
}

func (g *globber) step(dir globDir, step globStep) error {
	name := step.entry.Name()
	child := globDir{
		path:  filepath.Join(dir.path, name),
		rel:   path.Join(dir.rel, name),
		name:  joinName(dir.name, name),
		state: step.state,
		rules: dir.rules,
	}
	if step.inner {
		return g.descend(child, step.entry)
	}
	return g.match(child, step.entry)
}

// joinName is path.Join for a name that must stay as it is.
func joinName(dir, name string) string {
	if dir == "" || strings.HasSuffix(dir, "/") {
		return dir + name
	}
	return dir + "/" + name
}

func (g *globber) match(file globDir, e fs.DirEntry) error {
	if !g.m.accepts(file.state, file.rel) {
		return nil
	}
	if g.dirsOnly {
		err := g.literal(file)
		if errors.Is(err, errStop) {
			return err
		}
		return g.report(err) // one of many, unlike what a pattern begins with
	}
	return g.emit(file.name, e.Type())
}

// descend searches a directory, or what a symbolic link names if that is one.
func (g *globber) descend(dir globDir, e fs.DirEntry) error {
	if !e.IsDir() {
		if info, err := os.Stat(dir.path); err != nil || !info.IsDir() {
			return nil
		}
	}
	if dir.rules != nil {
		var err error
		dir.rules, err = dir.rules.Child(e.Name())
		if err := g.reportRules(dir, err); err != nil {
			return err
		}
	}
	return g.dir(dir)
}
