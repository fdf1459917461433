package fsops

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
	"github.com/podagent/podagent/pkg/fsops/internal/walk"
)

// A grepRoot is a path to be searched.
type grepRoot struct {
	name string // as it is reported
	path string // where it is
	// dir and file say what it is. If neither is set, it can't be searched.
	dir, file bool
	// rules are the ignore rules of a directory.
	rules *ignore.Dir
	// faults are the errors of the path, or of the rules.
	faults []grepFault
	// inner are the paths below that are searched by themselves.
	inner map[string]bool
}

// A grepFault is a path that could not be searched, or read.
type grepFault struct {
	name string
	err  error
}

// grepRoots looks at the paths to be searched.
func (f *FS) grepRoots(g *grep) error {
	names := g.opts.Paths
	if len(names) == 0 {
		names = []string{"."}
	}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		root := f.grepRoot(g, name)
		switch searched := root.dir || root.file; {
		case !searched && len(names) == 1:
			return pathError("grep", name, root.faults[0].err)
		case searched && known[root.path]:
		default:
			known[root.path] = searched
			g.roots = append(g.roots, root)
		}
	}
	g.nestRoots()
	return nil
}

// grepRoot looks at a path.
func (f *FS) grepRoot(g *grep, name string) *grepRoot {
	path, err := f.resolve("grep", name)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	root := &grepRoot{name: filepath.ToSlash(filepath.Clean(name)), path: path}
	switch {
	case err != nil:
		root.fail(name, err)
	case info.IsDir():
		root.dir = true
		if !g.opts.NoIgnore {
			root.readRules(f.Workdir())
		}
	default:
		root.file = true
	}
	return root
}

func (r *grepRoot) readRules(top string) {
	var err error
	if r.rules, err = ignore.Open(r.path, top); err == nil {
		return
	}
	for _, err := range ignore.Errors(err) {
		r.fail(r.join(ignore.ErrorFile(r.path, err)), err)
	}
}

func (r *grepRoot) fail(name string, err error) {
	r.faults = append(r.faults, grepFault{name: name, err: err})
}

// nestRoots makes each directory leave out the paths that are searched by themselves.
func (g *grep) nestRoots() {
	dirs := map[string]*grepRoot{}
	for _, root := range g.roots {
		if root.dir {
			dirs[root.path] = root
		}
	}
	for _, root := range g.roots {
		if !root.dir && !root.file {
			continue
		}
		for dir := filepath.Dir(root.path); len(dirs) > 0; dir = filepath.Dir(dir) {
			if outer := dirs[dir]; outer != nil {
				outer.leaveOut(root.path)
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
}

func (r *grepRoot) leaveOut(path string) {
	if rel, err := filepath.Rel(r.path, path); err == nil && rel != "." {
		if r.inner == nil {
			r.inner = map[string]bool{}
		}
		r.inner[filepath.ToSlash(rel)] = true
	}
}

// pruner returns a function that says which entries below a directory are left out, nil
// if none are.
func (g *grep) pruner(root *grepRoot) func(rel string, typ fs.FileMode) bool {
	if len(root.inner) == 0 && g.exclude.Empty() {
		return nil
	}
	return func(rel string, typ fs.FileMode) bool {
		return root.inner[rel] || g.exclude.Match(rel, typ == fs.ModeDir)
	}
}

// selects reports whether the options want the file with that path below the
// directory that is searched.
func (g *grep) selects(rel string) bool {
	return (g.include.Empty() || g.include.Match(rel, false)) && !g.exclude.Match(rel, false)
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

// rootEntries yields the files of a root that are to be searched, by name.
func (g *grep) rootEntries(ctx context.Context, root *grepRoot) iter.Seq[grepEntry] {
	return func(yield func(grepEntry) bool) {
		for _, fault := range root.faults {
			if !yield(grepEntry{name: fault.name, err: fault.err}) {
				return
			}
		}
		if root.file && g.selects(filepath.Base(root.path)) {
			yield(grepEntry{name: root.name, path: root.path, named: true})
		}
		if root.dir {
			g.dirEntries(ctx, root, yield)
		}
	}
}

func (g *grep) dirEntries(ctx context.Context, root *grepRoot, yield func(grepEntry) bool) {
	opts := walk.Options{
		NoHidden: !g.opts.Hidden, NoGit: !g.opts.NoIgnore, Follow: g.opts.Follow,
		Ignore: root.rules, Prune: g.pruner(root),
	}
	for e := range walk.Sorted(ctx, root.path, opts) {
		if e.Err == nil && (!e.Type.IsRegular() || !g.include.Empty() && !g.include.Match(e.Rel, false)) {
			continue
		}
		if !yield(grepEntry{name: root.join(e.Rel), path: e.Path, err: e.Err}) {
			return
		}
	}
}
