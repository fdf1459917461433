package watch

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

// A watcher is one call of [Run].
type watcher struct {
	ctx      context.Context
	opts     Options
	file     bool // the root is no directory
	yield    func(Event) bool
	notify   *fsnotify.Watcher
	failures <-chan error // of notify
	tree     *treeDir
	names    int // that are kept in the tree
	ids      map[fileID]*treeDir
	// scanned are the files that were reported because a scan found them. An
	// event for them may still be on its way, which would report them again.
	scanned map[string]fileID
	// stale are the directories whose rules have changed.
	stale map[*treeDir]struct{}
	// lost says that a scan could not tell which files came and went.
	lost bool
	held holder
	// caughtUp is the last moment at which no event was waiting to be handled.
	caughtUp time.Time
}

// open sets all watches.
func (w *watcher) open() error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return failed("", err)
	}
	w.notify, w.failures = notify, failuresOf(notify)
	w.scanned, w.stale = map[string]fileID{}, map[*treeDir]struct{}{}
	w.tree, w.ids, w.names, w.lost = &treeDir{}, map[fileID]*treeDir{}, 0, false
	if w.file {
		err = failed("", notify.Add(filepath.Dir(w.opts.Root)))
	} else {
		w.tree.rules = w.rulesOf(w.tree)
		err = w.scan(w.tree, true, time.Time{})
	}
	if err != nil {
		notify.Close()
	}
	return err
}

// failuresOf returns the first failure of an fsnotify watcher, and takes them all
// at once: while a failure waits, the watcher may hold a lock that Add and Remove
// need.
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

// run handles events, and gives them at the end of their window, until there is nothing
// more to report.
func (w *watcher) run() error {
	var windowEnd <-chan time.Time
	for {
		switch {
		case windowEnd != nil:
		case len(w.held.events)+len(w.stale) > 0:
			windowEnd = time.After(window)
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
		case <-windowEnd:
			windowEnd = nil
			err = w.endWindow()
		}
		if err != nil {
			return err
		}
	}
}

// ended returns the error of a context that ended, nil if it did not.
func (w *watcher) ended() error { return failed("", w.ctx.Err()) }

func (w *watcher) endWindow() error {
	if err := w.readRules(); err != nil {
		return err
	}
	return w.give(false)
}

// hold holds an event that happened now, to be given later.
func (w *watcher) hold(op Op, path string) error {
	return w.holdEvent(heldEvent{Event: Event{Op: op, Path: path, Time: time.Now()}})
}

func (w *watcher) holdEvent(e heldEvent) error {
	w.held.add(e)
	if len(w.held.events) < maxHeld {
		return nil
	}
	return w.give(false)
}

// give yields the held events: all, or those that need not wait any longer.
func (w *watcher) give(all bool) error {
	removed := false
	for _, e := range w.held.take(all) {
		if e.Op == 0 {
			continue
		}
		removed = removed || e.Op == Remove
		e.Path = w.rel(e.Path)
		if e.From != "" {
			e.From = w.rel(e.From)
		}
		if !w.yield(e.Event) {
			return errDone
		}
	}
	if !w.file || !removed {
		return nil
	}
	if _, err := os.Lstat(w.opts.Root); err != nil {
		return errDone
	}
	return nil
}

// giveOfRoot yields an event of the root at once, after those that are held.
func (w *watcher) giveOfRoot(op Op) error {
	if err := w.give(true); err != nil {
		return err
	}
	if !w.yield(Event{Op: op, Time: time.Now()}) {
		return errDone
	}
	return nil
}

// end gives the last event.
func (w *watcher) end() error {
	if err := w.giveOfRoot(Remove); err != nil {
		return err
	}
	return errDone
}

// failure handles an error that the watcher reports.
func (w *watcher) failure(err error) error {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		return w.overflow()
	}
	return failed("", err)
}

// overflow begins anew, since lost events may be about directories that were made
// or moved. It tells the caller to look at the tree once everything is watched
// again.
func (w *watcher) overflow() error {
	w.notify.Close()
	if err := w.open(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return w.end()
		}
		return err
	}
	return w.giveOfRoot(Overflow)
}
