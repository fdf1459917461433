package watch

import (
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// event handles one event of the watcher.
func (w *watcher) event(e fsnotify.Event) error {
	path := filepath.Clean(e.Name)
	switch {
	case w.file:
		return w.fileEvent(e, path)
	case path == w.opts.Root && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)):
		return w.end()
	case path == w.opts.Root:
		return eachOp(e, func(op Op) error { return w.hold(op, path) })
	}
	d, name := w.find(path)
	if d == nil {
		return nil // its directory has moved, and was searched at its new path
	}
	if w.opts.Ignore && ignore.FileOf(name) != 0 {
		w.stale[d] = struct{}{}
	}
	return eachOp(e, func(op Op) error {
		switch op {
		case Create:
			return w.appeared(e, d, name, path)
		case Rename:
			return w.left(d, name, path)
		case Remove:
			return w.removed(d, name, path)
		}
		return w.touched(op, d, name, path)
	})
}

// eachOp calls do for each operation of an event; most have one.
func eachOp(e fsnotify.Event, do func(Op) error) error {
	for _, pair := range []struct {
		from fsnotify.Op
		to   Op
	}{
		{fsnotify.Create, Create},
		{fsnotify.Write, Write},
		{fsnotify.Chmod, Chmod},
		{fsnotify.Rename, Rename},
		{fsnotify.Remove, Remove},
	} {
		if !e.Has(pair.from) {
			continue
		}
		if err := do(pair.to); err != nil {
			return err
		}
	}
	return nil
}

// appeared handles a new name, whether of a new file or of a renamed one.
func (w *watcher) appeared(e fsnotify.Event, d *treeDir, name, path string) error {
	if w.held.waiting > 0 {
		if old := w.held.find(renamedFrom(e)); old != nil {
			return w.renamed(old, d, name, path)
		}
	}
	return w.created(d, name, path)
}

// created reports a new file, and looks into it if it is a directory.
func (w *watcher) created(d *treeDir, name, path string) error {
	info, err := os.Lstat(path)
	isDir := err == nil && info.IsDir()
	if w.ignored(d, name, isDir) || err != nil && w.ignored(d, name, true) {
		return nil
	}
	if err == nil && w.isScanned(path, info) {
		return nil
	}
	if d.dirs[name] != nil { // it is replaced, and its content is gone
		if err := w.removed(d, name, path); err != nil {
			return err
		}
	}
	w.forget(d, name)
	if err := w.hold(Create, path); err != nil {
		return err
	}
	if child := w.learn(d, name, isDir); child != nil {
		return w.scan(child, false, time.Time{})
	}
	return nil
}

// left handles a name that is gone because its file was renamed. Whether the
// new name is in the tree is not known yet.
func (w *watcher) left(d *treeDir, name, path string) error {
	// A directory reports it a second time, by its own watch.
	again := w.opts.Recursive && d.partial && !d.has(name) && w.held.find(path) != nil
	if again || w.unknown(d, name) {
		return nil
	}
	dir := d.dirs[name]
	w.forget(d, name)
	return w.holdEvent(heldEvent{Event: Event{Op: Rename, Path: path, Time: time.Now()}, waiting: true, dir: dir})
}

// renamed reports a file that has a new name in the tree. A directory had no watches
// between the renaming and the new ones, so renamed searches it for changes in that
// time.
func (w *watcher) renamed(old *heldEvent, d *treeDir, name, path string) error {
	dir := old.dir
	info, err := os.Lstat(path)
	isDir := dir != nil || err == nil && info.IsDir()
	// Names are looked up later than they are used: the old name may have led to the
	// next file of that name already.
	other := dir != nil && err == nil && dir.id != idOf(info)
	if other || w.ignored(d, name, isDir) {
		w.held.gone(old)
		return w.created(d, name, path)
	}
	w.forget(d, name) // it is replaced
	w.held.renamed(old, path)
	if dir != nil {
		w.attach(dir, d, name)
		return w.rescan(dir, w.caughtUp.Add(-renameSlack))
	}
	if dir = w.learn(d, name, isDir); dir != nil { // a directory that was not known
		return w.scan(dir, false, time.Time{})
	}
	return nil
}

// rescan looks again at a directory that is known.
func (w *watcher) rescan(d *treeDir, since time.Time) error {
	err := w.scan(d, false, since)
	if err == nil && w.lost {
		w.lost = false
		err = w.hold(Overflow, w.opts.Root)
	}
	return err
}

// removed reports a file that is gone.
func (w *watcher) removed(d *treeDir, name, path string) error {
	if w.unknown(d, name) {
		return nil
	}
	w.forget(d, name)
	return w.hold(Remove, path)
}

// touched reports a file that was changed.
func (w *watcher) touched(op Op, d *treeDir, name, path string) error {
	if !w.unknown(d, name) {
		return w.hold(op, path)
	}
	if _, err := os.Lstat(path); err != nil {
		return nil
	}
	return w.created(d, name, path)
}

// unknown reports whether an event is about a name that is not watched: it is
// ignored, or its removal has been reported already.
func (w *watcher) unknown(d *treeDir, name string) bool {
	return !d.has(name) && (!d.partial || w.ignored(d, name, false))
}

// readRules reads changed files of rules: files that they no longer exclude are
// new, and files that they exclude now are forgotten.
func (w *watcher) readRules() error {
	for d := range w.stale {
		delete(w.stale, d)
		if !w.inTree(d) {
			continue
		}
		w.setRules(d)
		if err := w.rescan(d, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

// fileEvent handles an event if the root is a file: its directory is watched.
func (w *watcher) fileEvent(e fsnotify.Event, path string) error {
	if path == filepath.Dir(w.opts.Root) && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
		return w.end()
	}
	if path != w.opts.Root {
		return nil
	}
	return eachOp(e, func(op Op) error {
		if op == Rename {
			op = Remove
		}
		return w.hold(op, path)
	})
}
