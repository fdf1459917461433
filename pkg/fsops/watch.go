package fsops

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"time"

	"github.com/podagent/podagent/pkg/fsops/internal/opener"
	"github.com/podagent/podagent/pkg/fsops/internal/watch"
)

// WatchOptions says what [FS.Watch] watches.
type WatchOptions struct {
	// Recursive watches the whole tree, with the directories that are made
	// later.
	Recursive bool
	// Ignore leaves out what .gitignore files and their like exclude, as
	// [GlobOptions] does, and .git itself. When such a file in the tree changes,
	// files that it newly excludes are not reported any more, and files that it no
	// longer excludes come as a WatchCreate.
	Ignore bool
	// Ready, if not nil, is called once, when everything is watched: what
	// happens from then on is reported. The goroutine that iterates calls it,
	// before the first event.
	Ready func()
}

// WatchOp is what happened to a watched file.
type WatchOp int

// The kinds of watch events.
const (
	// WatchCreate is a new file: it was made there, or moved there from elsewhere.
	// It may have replaced another file, and may have been written by the time of
	// the event.
	WatchCreate WatchOp = iota + 1
	// WatchWrite is a file whose content was changed.
	WatchWrite
	// WatchRemove is a file that is gone: it was removed, or moved to where nothing
	// is watched. For a directory, that includes all that was in it.
	WatchRemove
	// WatchRename is a file whose path was From, and is now Path, with all that is in
	// it if it is a directory. It may have replaced another file.
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
	// Time is when Watch learned of it.
	Time time.Time
}

// Watch reports what happens to a directory's files, with opts.Recursive to all
// below it, from when it calls opts.Ready until ctx ends, which is its last error.
// A directory that is made later is watched, too, and what it holds by then is
// reported as created, so that nothing in it is missed. Symbolic links are not
// followed, unless name itself is one. Directories that may not be read are not
// watched.
//
// Events are held back for 5 ms, and those of one path joined, so that many
// changes give few events. Writes become one event, and so do changes of the mode
// and its like. Both are part of a creation before them, and are not reported if a
// removal follows. All other events are given, in their order: a file that comes
// and goes is created and removed.
//
// The old and the new name of a renamed file are one event if both are watched.
// Files in a renamed directory are not reported, except those that changed during
// the renaming or some 100 ms before: these get a WatchWrite. A file that is moved
// elsewhere is reported 20 ms late, because its new name could still come.
//
// When the caller takes the events too slowly, the system drops some, and a
// [WatchOverflow] follows. The renaming of a directory in a tree of more than 128
// Ki files may give one, too, because changes during the renaming are then unknown.
// When the directory itself is removed or renamed, its WatchRemove is the last
// event, and the iteration ends without an error.
//
// If name is a file, Watch reports its changes. If another file replaces it, as
// editors do, that is a [WatchCreate]. The iteration ends once there is no file of
// that name any more.
//
// An error that matches syscall.ENOSPC says that the system's limit of watches
// is reached, and how to raise it.
func (f *FS) Watch(ctx context.Context, name string, opts WatchOptions) iter.Seq2[WatchEvent, error] {
	return func(yield func(WatchEvent, error) bool) {
		err := f.watch(ctx, name, opts, func(e WatchEvent) bool { return yield(e, nil) })
		if err != nil {
			yield(WatchEvent{}, err)
		}
	}
}

// watch reports the events below a path under the name that the caller gave.
func (f *FS) watch(ctx context.Context, name string, opts WatchOptions, yield func(WatchEvent) bool) error {
	path, err := f.resolve("watch", name)
	if err != nil {
		return err
	}
	root, err := watchedPath(path)
	if err != nil {
		return pathError("watch", name, err)
	}
	err = watch.Run(ctx, watch.Options{
		Root: root, Recursive: opts.Recursive, Ignore: opts.Ignore, RulesTop: f.Workdir(), Ready: opts.Ready,
	}, func(e watch.Event) bool {
		event := WatchEvent{Op: watchOps[e.Op], Path: watchedName(name, e.Path), Time: e.Time}
		if e.Op == watch.Rename {
			event.From = watchedName(name, e.From)
		}
		return yield(event)
	})
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return pathError("watch", watchedName(name, failed.Path), failed.Err)
	}
	return err
}

// watchedPath returns the real path of a file that may be read.
func watchedPath(path string) (string, error) {
	file, _, err := opener.Open(path, holdOnly)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if !hasDescriptorPaths() {
		return filepath.EvalSymlinks(path)
	}
	return realPathOf(file)
}

var watchOps = map[watch.Op]WatchOp{
	watch.Create:   WatchCreate,
	watch.Write:    WatchWrite,
	watch.Remove:   WatchRemove,
	watch.Rename:   WatchRename,
	watch.Chmod:    WatchChmod,
	watch.Overflow: WatchOverflow,
}

// watchedName returns the caller's name of a path below the watched one.
func watchedName(name, rel string) string {
	if rel == "" {
		return name
	}
	return joinName(name, rel)
}
