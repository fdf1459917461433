package fsops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// WatchOptions says what [FS.Watch] watches.
type WatchOptions struct {
	// Recursive watches the whole tree, with the directories that are made
	// later.
	Recursive bool
	// Ignore leaves out what .gitignore files and their like exclude, as
	// [GlobOptions] does, and .git itself. When such a file in the tree
	// changes, what it excludes from then on is not reported any more, and
	// what it does not exclude any more comes as a WatchCreate.
	Ignore bool
}

// WatchOp is what happened to a watched file.
type WatchOp int

// The kinds of watch events.
const (
	// WatchReady is the first event: what happens from now on is reported.
	WatchReady WatchOp = iota + 1
	// WatchCreate is a new file, be it made there or moved there from
	// elsewhere; it may have taken the place of another file. By the time of
	// the event it may have been written, too.
	WatchCreate
	// WatchWrite is a file whose content was changed.
	WatchWrite
	// WatchRemove is a file that is gone, be it removed or moved to where
	// nothing is watched. With a directory goes all that was in it.
	WatchRemove
	// WatchRename is a file that was From, and is Path now, with all that is in
	// it if it is a directory. It may have taken the place of another file.
	WatchRename
	// WatchChmod is a file whose mode, owner or times were changed.
	WatchChmod
	// WatchOverflow says that events were lost: look at the tree anew.
	WatchOverflow
)

// WatchEvent is something that happened to a watched file.
type WatchEvent struct {
	Op WatchOp
	// Path begins with the path that was watched, as the caller named it.
	Path string
	// From is the path before a WatchRename, and empty for other events.
	From string
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
// Events are held back for 5 ms, and those of one path joined, so that many
// changes are no storm. Writes become one event, and so do changes of the mode
// and its like;
// both are part of a creation before them, and neither is worth an event before
// a removal. All other events are given, in their order: a file that comes and
// goes is created and removed.
//
// The old and the new name of a renamed file are one event if both are watched.
// What is in a renamed directory is not reported, but for files that changed
// during the renaming or some 100 ms before: these get a WatchWrite.
// A file that is moved elsewhere is reported 20 ms late, because its new name
// could still come.
//
// When the caller takes the events too slowly, the system drops some, and
// [WatchOverflow] says so. So does the renaming of a directory in a tree of
// more than 128 Ki files, because what happens to it meanwhile is then unknown.
// When the directory itself is removed or renamed, its WatchRemove is the last
// event, and the iteration ends without an error.
//
// Of a file in place of a directory, changes are reported also when it is
// replaced by another, as editors do it: as [WatchCreate]. It ends once there
// is no file of that name any more.
//
// An error that matches syscall.ENOSPC says that the system's limit of watches
// is reached, and how to raise it.
func (f *FS) Watch(ctx context.Context, name string, opts WatchOptions) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		w := &watch{ctx: ctx, name: name, top: f.Workdir(), recursive: opts.Recursive, ignore: opts.Ignore, yield: yield}
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
	if err := w.emit(WatchReady); err != nil {
		return err
	}
	if err := w.run(); !errors.Is(err, errWatchEnded) {
		return err
	}
	return nil
}

// ended returns the error of a context that ended, nil if it did not.
func (w *watch) ended() error { return pathError("watch", w.name, w.ctx.Err()) }

// errWatchEnded says that there is nothing left to watch.
var errWatchEnded = errors.New("watched file is gone")

// shown returns the path with the beginning that the caller gave it.
func (w *watch) shown(path string) string {
	rel := strings.TrimPrefix(strings.TrimPrefix(path, w.root), string(filepath.Separator))
	if path == w.root || rel == "" {
		return w.name
	}
	return joinName(w.name, filepath.ToSlash(rel))
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
