package watch

import (
	"path/filepath"
	"strings"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// A treeDir is a directory of the watched tree with the known names in it. Ignored names
// are not known.
type treeDir struct {
	parent *treeDir // nil for the root, and for what left the tree
	name   string   // in parent
	// id tells the directory from others that had its name before, or have it later.
	id    fileID
	rules *ignore.Dir
	dirs  map[string]*treeDir
	files map[string]struct{} // all but directories
	// partial says that files lacks some names.
	partial bool
}

func (d *treeDir) has(name string) bool {
	_, file := d.files[name]
	return file || d.dirs[name] != nil
}

// A fileID identifies a file as long as it exists. It is zero if it is not known.
type fileID struct{ dev, ino uint64 }

// path returns the absolute path of a directory in the tree.
func (w *watcher) path(d *treeDir) string {
	if d.parent == nil {
		return w.opts.Root
	}
	return filepath.Join(w.path(d.parent), d.name)
}

// inTree reports whether the directory is still in the tree.
func (w *watcher) inTree(d *treeDir) bool {
	for ; d.parent != nil; d = d.parent {
		if d.parent.dirs[d.name] != d {
			return false
		}
	}
	return d == w.tree
}

// find returns the directory of the tree that a path lies in, nil if there is
// none, and the path's name in it.
func (w *watcher) find(path string) (d *treeDir, name string) {
	const separator = string(filepath.Separator)
	rest := strings.TrimPrefix(strings.TrimPrefix(path, w.opts.Root), separator)
	for d = w.tree; d != nil; {
		first, below, more := strings.Cut(rest, separator)
		if !more {
			return d, first
		}
		d, rest = d.dirs[first], below
	}
	return nil, ""
}

// ignored reports whether the watch leaves out that name.
func (w *watcher) ignored(d *treeDir, name string, isDir bool) bool {
	return w.opts.Ignore && (name == ignore.GitDir || d.rules.Ignored(name, isDir))
}

// rulesOf returns the rules of a directory in the tree, nil without Ignore. A file of
// rules that cannot be read has none, nor has one without room beside those of all other
// directories.
func (w *watcher) rulesOf(d *treeDir) *ignore.Dir {
	if !w.opts.Ignore {
		return nil
	}
	if d.parent == nil {
		rules, _ := ignore.Open(w.opts.Root, w.opts.RulesTop)
		return rules
	}
	rules, _ := d.parent.rules.Child(d.name)
	return rules
}

// learn adds a file to the tree. For a directory it returns the new treeDir.
func (w *watcher) learn(d *treeDir, name string, isDir bool) *treeDir {
	switch {
	case isDir && w.opts.Recursive:
		child := &treeDir{parent: d, name: name}
		child.rules = w.rulesOf(child)
		if d.dirs == nil {
			d.dirs = map[string]*treeDir{}
		}
		d.dirs[name] = child
		return child
	case !w.opts.Recursive && !w.opts.Ignore, w.names >= maxNames:
		d.partial = true
	default:
		if d.files == nil {
			d.files = map[string]struct{}{}
		}
		if _, ok := d.files[name]; !ok {
			d.files[name] = struct{}{}
			w.names++
		}
	}
	return nil
}

// forget drops a file from the tree, with all that is below it.
func (w *watcher) forget(d *treeDir, name string) {
	path := filepath.Join(w.path(d), name)
	delete(w.scanned, path)
	if _, ok := d.files[name]; ok {
		delete(d.files, name)
		w.names--
	}
	if child := d.dirs[name]; child != nil {
		w.drop(child, path)
		delete(d.dirs, name)
		child.parent = nil
	}
}

// drop ends the watches of a directory and those below it, which would go on to
// report former paths, and forgets what is noted about them elsewhere.
func (w *watcher) drop(d *treeDir, path string) {
	_ = w.notify.Remove(path) // it may have gone by itself
	if w.ids[d.id] == d {
		delete(w.ids, d.id)
	}
	w.names -= len(d.files)
	d.rules.Release()
	for name := range d.files {
		delete(w.scanned, filepath.Join(path, name))
	}
	for name, child := range d.dirs {
		delete(w.scanned, filepath.Join(path, name))
		w.drop(child, filepath.Join(path, name))
	}
}

// unwatch ends the watches of a directory and those below it.
func (w *watcher) unwatch(d *treeDir, path string) {
	_ = w.notify.Remove(path) // it may have gone by itself
	for name, child := range d.dirs {
		w.unwatch(child, filepath.Join(path, name))
	}
}

// attach puts a directory that was forgotten into the tree again. Its watches
// are not set yet.
func (w *watcher) attach(child, d *treeDir, name string) {
	child.parent, child.name = d, name
	if d.dirs == nil {
		d.dirs = map[string]*treeDir{}
	}
	d.dirs[name] = child
	w.names += child.count()
	w.setRules(child)
}

// count returns how many names are kept of a directory and those below it.
func (d *treeDir) count() int {
	n := len(d.files)
	for _, child := range d.dirs {
		n += child.count()
	}
	return n
}

// setRules reads the rules of a directory, and of those below it, anew.
func (w *watcher) setRules(d *treeDir) {
	d.rules.Release()
	d.rules = w.rulesOf(d)
	for _, child := range d.dirs {
		w.setRules(child)
	}
}
