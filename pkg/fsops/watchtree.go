package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fsnotify/fsnotify"
)

// A watch is one call of [FS.Watch].
type watch struct {
	ctx       context.Context
	name      string // as the caller named it
	root      string // the absolute path, symbolic links resolved
	file      bool   // root is no directory
	recursive bool
	yield     func(WatchEvent, error) bool
	notify    *fsnotify.Watcher
	// dirs are the directories that are watched. What is known of each tells
	// it from another one that took its path.
	dirs map[string]fs.FileInfo
	// scanned are the files that were reported because they were found in a
	// new directory. An event for them may still be on its way, which would
	// report them again.
	scanned map[string]fs.FileInfo
	// moved is the directory whose renaming was reported last: its own watch
	// may tell of it again.
	moved string
}

// open sets all watches.
func (w *watch) open() error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return watchError(w.name, err)
	}
	w.notify = notify
	w.dirs, w.scanned = map[string]fs.FileInfo{}, map[string]fs.FileInfo{}
	top := w.root
	if w.file {
		top = filepath.Dir(w.root)
	}
	if err := w.add(top); err != nil {
		w.notify.Close()
		return err
	}
	return nil
}

// add watches the root and, if that is wanted, all directories below it.
func (w *watch) add(root string) error {
	if err := w.notify.Add(root); err != nil {
		return watchError(w.name, err)
	}
	info, err := os.Lstat(root)
	if err != nil {
		return pathError("watch", w.name, err)
	}
	w.dirs[root] = info
	if w.file || !w.recursive {
		return nil
	}
	return w.scan(root, nil)
}

// scan watches the directories in dir, which itself is watched already. It
// calls found for each file, before it looks into those that are directories.
func (w *watch) scan(dir string, found func(path string, info fs.FileInfo) error) error {
	entries, _ := os.ReadDir(dir) // what can't be read is gone, or is not for us
	for _, e := range entries {
		if err := w.ended(); err != nil {
			return err
		}
		path := filepath.Join(dir, e.Name())
		if found == nil && !e.IsDir() {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if found != nil {
			if err := found(path, info); err != nil {
				return err
			}
		}
		if info.IsDir() {
			if err := w.addDir(path, info, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// addDir watches a directory below the root, with all that is in it.
func (w *watch) addDir(path string, info fs.FileInfo, found func(string, fs.FileInfo) error) error {
	err := w.notify.Add(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return watchError(w.shown(path), err)
	}
	w.dirs[path] = info
	return w.scan(path, found)
}

// event passes one event on.
func (w *watch) event(e fsnotify.Event) error {
	e.Name = filepath.Clean(e.Name)
	if w.file {
		return w.fileEvent(e)
	}
	for _, op := range opsOf(e) {
		if e.Name == w.root && (op == WatchRemove || op == WatchRename) {
			return w.end(op)
		}
		if err := w.change(op, e.Name); err != nil {
			return err
		}
	}
	return nil
}

// change handles one thing that happened below the root.
func (w *watch) change(op WatchOp, path string) error {
	moved := w.moved
	w.moved = ""
	switch op {
	case WatchCreate:
		return w.created(path)
	case WatchRename:
		if path == moved {
			return nil
		}
		if w.gone(path, op) {
			w.moved = path
		}
	case WatchRemove:
		w.gone(path, op)
	}
	return w.emit(op, path)
}

// opsOf returns what happened, mostly one thing.
func opsOf(e fsnotify.Event) []WatchOp {
	var ops []WatchOp
	for _, pair := range []struct {
		from fsnotify.Op
		to   WatchOp
	}{
		{fsnotify.Create, WatchCreate},
		{fsnotify.Write, WatchWrite},
		{fsnotify.Chmod, WatchChmod},
		{fsnotify.Rename, WatchRename},
		{fsnotify.Remove, WatchRemove},
	} {
		if e.Has(pair.from) {
			ops = append(ops, pair.to)
		}
	}
	return ops
}

// created reports a new file, and looks into a new directory.
func (w *watch) created(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return w.emit(WatchCreate, path) // it was there
	}
	if !w.isScanned(path, info) {
		if err := w.emit(WatchCreate, path); err != nil {
			return err
		}
	}
	if !w.recursive || !info.IsDir() {
		return nil
	}
	if known, ok := w.dirs[path]; ok && os.SameFile(known, info) {
		return nil
	}
	return w.addDir(path, info, w.found)
}

// found reports a file that was there before its directory was watched, or at
// least before its event was seen.
func (w *watch) found(path string, info fs.FileInfo) error {
	if known, ok := w.scanned[path]; ok && os.SameFile(known, info) {
		return nil
	}
	if len(w.scanned) == maxWatchScanned {
		clear(w.scanned)
	}
	w.scanned[path] = info
	return w.emit(WatchCreate, path)
}

// isScanned reports whether the file was reported already by a scan, and is
// still the same. That is asked once for each event.
func (w *watch) isScanned(path string, info fs.FileInfo) bool {
	known, ok := w.scanned[path]
	delete(w.scanned, path)
	return ok && os.SameFile(known, info)
}

// gone forgets a file. Below a directory that was renamed, the watches would
// report paths that are no more; if it is still in the tree, it comes back as
// a new one. It reports whether the file was a directory that was watched.
func (w *watch) gone(path string, op WatchOp) bool {
	delete(w.scanned, path)
	if _, ok := w.dirs[path]; !ok {
		return false
	}
	delete(w.dirs, path)
	if op == WatchRemove { // it was empty
		return true
	}
	_ = w.notify.Remove(path) // it may have gone by itself
	for dir := range w.dirs {
		if strings.HasPrefix(dir, path+string(filepath.Separator)) {
			delete(w.dirs, dir)
			_ = w.notify.Remove(dir)
		}
	}
	return true
}

// fileEvent passes on what happens to the one file that is watched by way of
// its directory.
func (w *watch) fileEvent(e fsnotify.Event) error {
	if e.Name == filepath.Dir(w.root) && (e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
		return w.end(WatchRemove)
	}
	if e.Name != w.root {
		return nil
	}
	for _, op := range opsOf(e) {
		if err := w.emit(op, w.root); err != nil {
			return err
		}
		if op != WatchRemove && op != WatchRename {
			continue
		}
		if _, err := os.Lstat(w.root); err != nil {
			return errWatchEnded
		}
	}
	return nil
}
