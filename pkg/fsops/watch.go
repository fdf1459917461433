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
	"time"

	"github.com/fsnotify/fsnotify"
)

// WatchOptions says what [FS.Watch] watches.
type WatchOptions struct {
	// Recursive watches the whole tree, with the directories that are made
	// later.
	Recursive bool
}

// WatchOp is what happened to a watched file.
type WatchOp int

// The kinds of watch events.
const (
	// WatchReady is the first event: what happens from now on is reported.
	WatchReady WatchOp = iota + 1
	WatchCreate
	WatchWrite
	WatchRemove
	// WatchRename says that Path is gone by that name; its new name, if it
	// is watched, comes as a WatchCreate.
	WatchRename
	WatchChmod
	// WatchOverflow says that events were lost: look at the tree anew.
	WatchOverflow
)

// WatchEvent is something that happened to a watched file.
type WatchEvent struct {
	Op WatchOp
	// Path begins with the path that was watched, as the caller named it.
	Path string
	// Time is when the agent learned of it.
	Time time.Time
}

// Watch reports what happens to a directory's files, with opts.Recursive to
// all below it, until ctx ends, which is its last error. The first event,
// [WatchReady], comes when everything is watched. A directory that is made
// later is watched from then on, and what it holds by then is reported as
// created, so that nothing in it is missed. Symbolic links are not followed,
// unless name itself is one. Directories that may not be read are not watched.
//
// When the caller takes the events too slowly, the system drops some, and
// [WatchOverflow] says so. When the directory itself is removed or renamed,
// that is the last event, and the iteration ends without an error.
//
// Of a file in place of a directory, changes are reported also when it is
// replaced by another, as editors do it: as [WatchCreate]. It ends once there
// is no file of that name any more.
//
// An error that matches syscall.ENOSPC says that the system's limit of watches
// is reached, and how to raise it.
func (f *FS) Watch(ctx context.Context, name string, opts WatchOptions) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		w := &watch{ctx: ctx, name: name, recursive: opts.Recursive, yield: yield}
		err := f.watch(w)
		if err != nil && !errors.Is(err, errStop) {
			yield(WatchEvent{}, err)
		}
	}
}

func (f *FS) watch(w *watch) error {
	path, err := f.resolve("watch", w.name)
	if err != nil {
		return err
	}
	if w.root, err = filepath.EvalSymlinks(path); err != nil {
		return pathError("watch", w.name, err)
	}
	info, err := os.Lstat(w.root)
	if err != nil {
		return pathError("watch", w.name, err)
	}
	w.file = !info.IsDir()
	if err := w.open(); err != nil {
		return err
	}
	defer func() { w.notify.Close() }()
	if err := w.emit(WatchReady, w.root); err != nil {
		return err
	}
	return w.run()
}

// run passes events on until the root is gone.
func (w *watch) run() error {
	for {
		var err error
		select {
		case <-w.ctx.Done():
			return w.ended()
		case event := <-w.notify.Events:
			err = w.event(event)
		case failure := <-w.notify.Errors:
			err = w.failure(failure)
		}
		if errors.Is(err, errWatchEnded) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// ended returns the error of a context that ended, nil if it did not.
func (w *watch) ended() error { return pathError("watch", w.name, w.ctx.Err()) }

// errWatchEnded says that there is nothing left to watch.
var errWatchEnded = errors.New("watched file is gone")

// emit yields one event.
func (w *watch) emit(op WatchOp, path string) error {
	if !w.yield(WatchEvent{Op: op, Path: w.shown(path), Time: time.Now()}, nil) {
		return errStop
	}
	return nil
}

// shown returns the path with the beginning that the caller gave it.
func (w *watch) shown(path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, w.root), string(filepath.Separator))
	if path == w.root || rel == "" {
		return w.name
	}
	return joinName(w.name, filepath.ToSlash(rel))
}

// failure handles what the watcher reports as an error.
func (w *watch) failure(err error) error {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return w.overflow()
	}
	return pathError("watch", w.name, err)
}

// overflow begins anew: among the events that were lost may be those of
// directories that were made or moved. Only when all is watched again is the
// caller told to look at the tree.
func (w *watch) overflow() error {
	w.notify.Close()
	if err := w.open(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return w.end(WatchRemove)
		}
		return err
	}
	return w.emit(WatchOverflow, w.root)
}

// end gives the last event.
func (w *watch) end(op WatchOp) error {
	if err := w.emit(op, w.root); err != nil {
		return err
	}
	return errWatchEnded
}

// watchError explains the errors that setting a watch has.
func watchError(name string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("cannot watch more directories, raise fs.inotify.max_user_watches: %w", syscall.ENOSPC)
	case errors.Is(err, syscall.EMFILE):
		err = fmt.Errorf("cannot make a watcher, raise fs.inotify.max_user_instances or the limit of open files: %w", syscall.EMFILE)
	}
	return pathError("watch", name, err)
}
