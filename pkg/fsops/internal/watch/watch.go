// Package watch reports what happens to the files of a directory, or of a tree,
// by way of the system's notifications.
//
// Notifications alone do not tell what is in a new or renamed directory, or which
// events belong together, and the system drops them if they are not taken in time.
// This package keeps the names of the tree: it looks into directories that are new,
// pairs the two names of a renamed file, joins the events of one path within a few
// milliseconds, and after a loss begins anew and says so. A caller that applies the
// events to a list of the files has the tree as it is, soon after each change; an
// [Overflow] says that the list must be read again.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Options says what [Run] watches.
type Options struct {
	// Root is a directory, or a file in place of one: an absolute path without
	// symbolic links.
	Root string
	// Recursive watches the whole tree, with the directories that are made later.
	Recursive bool
	// Ignore leaves out .git, and what the rules in the tree exclude.
	Ignore bool
	// RulesTop is the topmost directory whose rules hold, as in [ignore.Open].
	RulesTop string
	// Ready, if not nil, is called once, when everything is watched.
	Ready func()
}

// Op is what happened to a file.
type Op int

// The operations; the public ones of package fsops say what each means.
const (
	Create Op = iota + 1
	Write
	Remove
	Rename
	Chmod
	Overflow
)

// Event is something that happened to a file.
type Event struct {
	Op Op
	// Path is the path below the root, with slashes between its parts; it is
	// empty for the root itself.
	Path string
	// From is such a path, too: the one before a Rename, else empty.
	From string
	// Time is when the event was noticed.
	Time time.Time
}

// Run calls yield for every event until yield returns false, the root is gone, or
// ctx ends, which is then the error. All calls come from the caller's goroutine.
//
// Every error is an [*fs.PathError], whose path is like that of an [Event]. One that
// matches syscall.ENOSPC says that the system's limit of watches is reached.
func Run(ctx context.Context, opts Options, yield func(Event) bool) error {
	info, err := os.Lstat(opts.Root)
	if err != nil {
		return failed("", err)
	}
	w := &watcher{ctx: ctx, opts: opts, file: !info.IsDir(), yield: yield}
	if err := w.open(); err != nil {
		return err
	}
	defer func() { w.notify.Close() }()
	if opts.Ready != nil {
		opts.Ready()
	}
	if err := w.run(); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// errDone says that nothing more is to be reported: the caller wants no more, or
// the root is gone.
var errDone = errors.New("watch ended")

// failed makes the error of [Run] for the file of that path below the root.
func failed(rel string, err error) error {
	if err == nil {
		return nil
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		err = fmt.Errorf("cannot watch more directories, raise fs.inotify.max_user_watches: %w", syscall.ENOSPC)
	case errors.Is(err, syscall.EMFILE):
		err = fmt.Errorf("cannot make a watcher, raise fs.inotify.max_user_instances or the limit of open files: %w", syscall.EMFILE)
	}
	return &fs.PathError{Op: "watch", Path: rel, Err: err}
}

// rel returns the path below the root.
func (w *watcher) rel(path string) string {
	return filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(path, w.opts.Root), string(filepath.Separator)))
}

// isGone reports whether err says that there is no such file, or that a directory on
// its path is not one any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}
