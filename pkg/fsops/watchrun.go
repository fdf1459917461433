package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// A watch is one call of [FS.Watch].
type watch struct {
	ctx       context.Context
	name      string // as the caller named it
	root      string // the absolute path, symbolic links resolved
	top       string // where rules about ignored files may begin
	file      bool   // root is no directory
	recursive bool
	ignore    bool
	yield     func(WatchEvent, error) bool
	notify    *fsnotify.Watcher
	failures  <-chan error // of notify
	tree      *watchDir
	names     int // that are kept in the tree
	ids       map[fileID]*watchDir
	// scanned are the files that were reported because a scan found them. An
	// event for them may still be on its way, which would report them again.
	scanned map[string]fileID
	// stale are the directories whose rules have changed.
	stale map[*watchDir]struct{}
	// lost says that a scan could not tell what came and went.
	lost bool
	held watchHold
	// caughtUp is when there last was no event to take in.
	caughtUp time.Time
}

// open sets all watches.
func (w *watch) open() error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return watchError(w.name, err)
	}
	w.notify, w.failures = notify, failuresOf(notify)
	w.scanned, w.stale = map[string]fileID{}, map[*watchDir]struct{}{}
	w.tree, w.ids, w.names, w.lost = &watchDir{}, map[fileID]*watchDir{}, 0, false
	if w.file {
		err = notify.Add(filepath.Dir(w.root))
	} else {
		w.tree.rules = w.rulesOf(w.tree)
		err = w.scan(w.tree, true, time.Time{})
	}
	if err != nil {
		notify.Close()
	}
	return err
}

// failuresOf returns the first of a watcher's failures. They have to be taken
// at any time, because the watcher may hold a lock meanwhile that Add and Remove
// wait for.
func failuresOf(notify *fsnotify.Watcher) <-chan error {
	first := make(chan error, 1)
	go func() {
		for err := range notify.Errors {
			if errors.Is(err, syscall.EINVAL) {
				continue // a directory was removed before its watch
			}
			select {
			case first <- err:
			default:
			}
		}
	}()
	return first
}

// run takes events in, and gives them when their time has come, until the root
// is gone.
func (w *watch) run() error {
	var window <-chan time.Time
	for {
		switch {
		case window != nil:
		case len(w.held.events)+len(w.stale) > 0:
			window = time.After(watchWindow)
		default:
			w.caughtUp = time.Now()
		}
		var err error
		select {
		case <-w.ctx.Done():
			return w.ended()
		case event := <-w.notify.Events:
			err = w.event(event)
		case failure := <-w.failures:
			err = w.failure(failure)
		case <-window:
			window = nil
			err = w.windowEnds()
		}
		if err != nil {
			return err
		}
	}
}

func (w *watch) windowEnds() error {
	if err := w.readRules(); err != nil {
		return err
	}
	return w.give(false)
}

// hold takes an event of now, to be given later.
func (w *watch) hold(op WatchOp, path string) error {
	return w.holdEvent(heldEvent{WatchEvent: WatchEvent{Op: op, Path: path, Time: time.Now()}})
}

func (w *watch) holdEvent(e heldEvent) error {
	w.held.add(e)
	if len(w.held.events) < maxWatchHeld {
		return nil
	}
	return w.give(false)
}

// give yields what is held: all, or as far as it has not to wait.
func (w *watch) give(all bool) error {
	removed := false
	for _, e := range w.held.take(all) {
		if e.Op == 0 {
			continue
		}
		removed = removed || e.Op == WatchRemove
		e.Path = w.shown(e.Path)
		if e.From != "" {
			e.From = w.shown(e.From)
		}
		if !w.yield(e.WatchEvent, nil) {
			return errStop
		}
	}
	if !w.file || !removed {
		return nil
	}
	if _, err := os.Lstat(w.root); err != nil {
		return errWatchEnded
	}
	return nil
}

// emit yields an event of the root at once, after those that are held.
func (w *watch) emit(op WatchOp) error {
	if err := w.give(true); err != nil {
		return err
	}
	if !w.yield(WatchEvent{Op: op, Path: w.name, Time: time.Now()}, nil) {
		return errStop
	}
	return nil
}

// end gives the last event.
func (w *watch) end() error {
	if err := w.emit(WatchRemove); err != nil {
		return err
	}
	return errWatchEnded
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
			return w.end()
		}
		return err
	}
	return w.emit(WatchOverflow)
}
