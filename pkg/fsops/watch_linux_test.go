package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// hung is when a test gives up waiting for an event.
const hung = 30 * time.Second

// A watching is a running watch, whose events a goroutine collects.
type watching struct {
	t      *testing.T
	events chan WatchEvent
	ended  chan error
	stop   context.CancelFunc
	seen   []string
}

// watchFor begins to watch, and returns when everything is watched.
func watchFor(t *testing.T, f *FS, name string, opts WatchOptions) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t: t, events: make(chan WatchEvent), ended: make(chan error, 1), stop: cancel}
	go func() {
		var last error
		for e, err := range f.Watch(ctx, name, opts) {
			if last = err; err != nil {
				break
			}
			select {
			case w.events <- e:
			case <-ctx.Done():
			}
		}
		w.ended <- last
	}()
	t.Cleanup(func() { cancel() })
	if e := w.next(); e.Op != WatchReady || e.Path != name || e.Time.IsZero() {
		t.Fatalf("the first event is %+v", e)
	}
	return w
}

func (w *watching) next() WatchEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		w.seen = append(w.seen, fmt.Sprintf("%s %s", opName(e.Op), e.Path))
		return e
	case err := <-w.ended:
		w.t.Fatalf("the watch ended (%v) after %q", err, w.seen)
	case <-time.After(hung):
		w.t.Fatalf("no event after %q", w.seen)
	}
	return WatchEvent{}
}

func opName(op WatchOp) string {
	return [...]string{"?", "ready", "create", "write", "remove", "rename", "chmod", "overflow"}[op]
}

// until waits for an event, and returns those before it.
func (w *watching) until(op WatchOp, path string) []string {
	w.t.Helper()
	from := len(w.seen)
	for {
		if e := w.next(); e.Op == op && e.Path == path {
			return w.seen[from : len(w.seen)-1]
		}
	}
}

// wantEnd waits for the end.
func (w *watching) wantEnd(class error) {
	w.t.Helper()
	for {
		select {
		case <-w.events:
		case err := <-w.ended:
			if !errors.Is(err, class) {
				w.t.Errorf("the watch ended with %v, want %v", err, class)
			}
			return
		case <-time.After(hung):
			w.t.Fatalf("the watch does not end, after %q", w.seen)
		}
	}
}

func count(events []string, event string) (n int) {
	for _, e := range events {
		if e == event {
			n++
		}
	}
	return n
}

func TestWatchReportsChanges(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/sub/", "dir/old")
	w := watchFor(t, f, "dir", WatchOptions{})
	put(t, f, "dir/new", "x")
	w.until(WatchCreate, "dir/new")
	w.until(WatchWrite, "dir/new")
	must(t, os.Chmod(at(f, "dir/new"), 0o600))
	w.until(WatchChmod, "dir/new")
	must(t, os.Rename(at(f, "dir/new"), at(f, "dir/newer")))
	w.until(WatchRename, "dir/new")
	w.until(WatchCreate, "dir/newer")
	put(t, f, "dir/sub/unseen", "x")
	must(t, os.Remove(at(f, "dir/old")))
	if before := w.until(WatchRemove, "dir/old"); len(before) > 0 {
		t.Errorf("a watch that is not recursive reports %q", before)
	}
	w.stop()
	w.wantEnd(context.Canceled)
}

func TestWatchPathsBeginAsTheyWereNamed(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/sub/", "link -> dir")
	for name, want := range map[string]string{
		".": "./dir/sub/", "dir": "dir/sub/", "./dir/": "./dir/sub/", "link": "link/sub/", at(f, "dir"): at(f, "dir/sub/") + "/",
	} {
		w := watchFor(t, f, name, WatchOptions{Recursive: true})
		put(t, f, "dir/sub/x\n\xff", "")
		w.until(WatchCreate, want+"x\n\xff")
		must(t, os.Remove(at(f, "dir/sub/x\n\xff")))
		w.stop()
		w.wantEnd(context.Canceled)
	}
}

// Directories that are made in one go, with files in them, come whole,
// whatever was made before the watch could be set; and each file comes once.
func TestWatchNewDirectoriesHaveNoGap(t *testing.T) {
	f := newTestFS(t)
	w := watchFor(t, f, ".", WatchOptions{Recursive: true})
	want := map[string]int{}
	for i := range 20 {
		for j := range 5 {
			name := fmt.Sprintf("d%d/e/f/g%d", i, j)
			makeTree(t, f, name)
			for dir := name; dir != "."; dir = filepath.Dir(dir) {
				want["create ./"+dir] = 1
			}
		}
	}
	put(t, f, "end", "")
	w.until(WatchCreate, "./end")
	// What was made last may come after the end, from within its directory.
	for range 5 {
		put(t, f, "d19/e/f/flush", "")
		w.until(WatchCreate, "./d19/e/f/flush")
		must(t, os.Remove(at(f, "d19/e/f/flush")))
		w.until(WatchRemove, "./d19/e/f/flush")
	}
	for event, n := range want {
		if got := count(w.seen, event); got != n {
			t.Errorf("%d times %q, want %d", got, event, n)
		}
	}
}

func TestWatchFollowsRenamedDirectories(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a/deep/", "dir/b/", "outside/")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	must(t, os.Rename(at(f, "dir/a"), at(f, "dir/b/c")))
	w.until(WatchRename, "dir/a")
	w.until(WatchCreate, "dir/b/c")
	w.until(WatchCreate, "dir/b/c/deep")
	put(t, f, "dir/b/c/deep/x", "")
	w.until(WatchCreate, "dir/b/c/deep/x")
	// Out of the tree and in again, under its first name.
	must(t, os.Rename(at(f, "dir/b/c"), at(f, "outside/c")))
	w.until(WatchRename, "dir/b/c")
	put(t, f, "outside/c/deep/unseen", "")
	must(t, os.Rename(at(f, "outside/c"), at(f, "dir/a")))
	w.until(WatchCreate, "dir/a/deep/unseen")
	put(t, f, "dir/a/deep/y", "")
	w.until(WatchCreate, "dir/a/deep/y")
	if n := count(w.seen, "rename dir/b/c"); n != 1 {
		t.Errorf("the renaming is reported %d times", n)
	}
}

func TestWatchRemovedAndRemadeDirectory(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a/b/")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	for i := range 10 {
		must(t, os.RemoveAll(at(f, "dir/a")))
		w.until(WatchRemove, "dir/a")
		makeTree(t, f, "dir/a/b/")
		w.until(WatchCreate, "dir/a/b")
		put(t, f, fmt.Sprintf("dir/a/b/%d", i), "")
		w.until(WatchCreate, fmt.Sprintf("dir/a/b/%d", i))
	}
}

func TestWatchEndsWithItsRoot(t *testing.T) {
	f := newTestFS(t)
	for _, recursive := range []bool{false, true} {
		makeTree(t, f, "dir/sub/x")
		w := watchFor(t, f, "dir", WatchOptions{Recursive: recursive})
		must(t, os.RemoveAll(at(f, "dir")))
		w.until(WatchRemove, "dir")
		w.wantEnd(nil)

		makeTree(t, f, "dir/sub/x")
		w = watchFor(t, f, "dir", WatchOptions{Recursive: recursive})
		must(t, os.Rename(at(f, "dir"), at(f, "moved")))
		w.until(WatchRename, "dir")
		w.wantEnd(nil)
		must(t, os.RemoveAll(at(f, "moved")))
	}
}

func TestWatchFileAcrossReplacement(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "file", "other")
	w := watchFor(t, f, "file", WatchOptions{})
	for range 3 {
		put(t, f, "other", "unseen")
		put(t, f, "temp", "new")
		must(t, os.Rename(at(f, "temp"), at(f, "file")))
		if before := w.until(WatchCreate, "file"); len(before) > 0 {
			t.Errorf("other events: %q", before)
		}
		file, err := os.OpenFile(at(f, "file"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = file.WriteString("more")
		must(t, errors.Join(err, file.Close()))
		w.until(WatchWrite, "file")
	}
	must(t, os.Remove(at(f, "file")))
	w.until(WatchRemove, "file")
	w.wantEnd(nil)
}

func TestWatchDoesNotFollowLinks(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/link -> ../elsewhere", "elsewhere/", "dir/loop -> .")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	makeTree(t, f, "elsewhere/x", "dir/later -> ../elsewhere", "elsewhere/y", "dir/end")
	for _, event := range w.until(WatchCreate, "dir/end") {
		if event != "create dir/later" {
			t.Errorf("event %q", event)
		}
	}
}

func TestWatchMissingPath(t *testing.T) {
	f := newTestFS(t)
	for _, err := range f.Watch(t.Context(), "missing", WatchOptions{}) {
		wantPathError(t, err, "watch", "missing", fs.ErrNotExist)
	}
}

func TestWatchLimitNamesTheSetting(t *testing.T) {
	err := watchError("dir", fmt.Errorf("add: %w", syscall.ENOSPC))
	wantPathError(t, err, "watch", "dir", syscall.ENOSPC)
	if !strings.Contains(err.Error(), "fs.inotify.max_user_watches") {
		t.Errorf("error is %v", err)
	}
}

// When events were lost, whatever they were, everything is watched again
// before the caller is told.
func TestWatchOverflowWatchesEverythingAgain(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a/")
	var events []WatchEvent
	w := &watch{ctx: t.Context(), name: "dir", root: at(f, "dir"), recursive: true, yield: func(e WatchEvent, _ error) bool {
		events = append(events, e)
		return true
	}}
	must(t, w.open())
	defer func() { w.notify.Close() }()
	makeTree(t, f, "dir/a/new/deep/")
	must(t, w.failure(fsnotify.ErrEventOverflow))
	if len(events) != 1 || events[0].Op != WatchOverflow || events[0].Path != "dir" {
		t.Errorf("events %+v", events)
	}
	if len(w.dirs) != 4 {
		t.Errorf("%d directories are watched, want 4", len(w.dirs))
	}
	must(t, os.RemoveAll(at(f, "dir")))
	if err := w.failure(fsnotify.ErrEventOverflow); !errors.Is(err, errWatchEnded) || events[1].Op != WatchRemove {
		t.Errorf("without a root: error %v, events %+v", err, events)
	}
}

// The real thing: nobody takes events until the kernel's queue is full.
func TestWatchOverflowIsReported(t *testing.T) {
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var queue int
	_, err = fmt.Sscan(string(limit), &queue)
	must(t, err)
	f := newTestFS(t)
	makeTree(t, f, "dir/x")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	for i := range 2*queue + 20_000 { // alternating, since equal events are merged
		must(t, os.Chmod(at(f, "dir/x"), 0o600))
		if i%4 == 0 {
			must(t, os.Truncate(at(f, "dir/x"), 0))
		}
	}
	w.until(WatchOverflow, "dir")
	makeTree(t, f, "dir/later/x")
	w.until(WatchCreate, "dir/later/x")
}
