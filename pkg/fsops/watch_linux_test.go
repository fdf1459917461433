package fsops

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A watching is a running watch, whose events a goroutine collects.
type watching struct {
	t      *testing.T
	events chan WatchEvent
	ended  chan error
	stop   context.CancelFunc
	seen   []string
}

// watchFor begins to watch. It returns once everything is watched.
func watchFor(t *testing.T, f *FS, name string, opts WatchOptions) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{t: t, events: make(chan WatchEvent), ended: make(chan error, 1), stop: cancel}
	ready := make(chan struct{})
	opts.Ready = func() { close(ready) } // panics if it is called twice
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
	select {
	case <-ready:
	case e := <-w.events:
		t.Fatalf("%q came before the watch was ready", eventText(e))
	case err := <-w.ended:
		t.Fatalf("the watch ended (%v) before it was ready", err)
	case <-time.After(hung):
		t.Fatal("the watch did not become ready")
	}
	return w
}

func (w *watching) next() WatchEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		w.seen = append(w.seen, eventText(e))
		return e
	case err := <-w.ended:
		w.t.Fatalf("the watch ended (%v) after %q", err, w.seen)
	case <-time.After(hung):
		w.t.Fatalf("no event after %q", w.seen)
	}
	return WatchEvent{}
}

// eventText returns "create a", or "rename a -> b".
func eventText(e WatchEvent) string {
	op := [...]string{"?", "create", "write", "remove", "rename", "chmod", "overflow"}[e.Op]
	if e.From != "" {
		op += " " + e.From + " ->"
	}
	return op + " " + e.Path
}

// until waits for an event and returns the events before it.
func (w *watching) until(event string) []string {
	w.t.Helper()
	from := len(w.seen)
	for {
		if eventText(w.next()) == event {
			return w.seen[from : len(w.seen)-1]
		}
	}
}

// want waits for these events, and fails if others come between them.
func (w *watching) want(events ...string) {
	w.t.Helper()
	for _, event := range events {
		got := eventText(w.next())
		for got != event && w.isRest() {
			got = eventText(w.next())
		}
		if got != event {
			w.t.Fatalf("after %q the event is %q, want %q", w.seen[:len(w.seen)-1], got, event)
		}
	}
}

// isRest reports whether the latest event belongs to the second system call of put,
// which creates or empties a file and then writes to it. A watch that wakes in
// between reports both, once.
func (w *watching) isRest() bool {
	n := len(w.seen)
	name, ok := strings.CutPrefix(w.seen[n-1], "write ")
	again := n > 2 && w.seen[n-3] == w.seen[n-1]
	return ok && n > 1 && !again && (w.seen[n-2] == "create "+name || w.seen[n-2] == "write "+name)
}

// wantEnd waits for the end and returns its error.
func (w *watching) wantEnd(class error) error {
	w.t.Helper()
	for {
		select {
		case <-w.events:
		case err := <-w.ended:
			if !errors.Is(err, class) {
				w.t.Errorf("the watch ended with %v, want %v", err, class)
			}
			return err
		case <-time.After(hung):
			w.t.Fatalf("the watch did not end, after %q", w.seen)
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
	makeTree(t, f, "dir/sub/", "dir/old", "elsewhere")
	w := watchFor(t, f, "dir", WatchOptions{})
	put(t, f, "dir/new", "x") // created and written
	w.want("create dir/new")
	put(t, f, "dir/new", "y")
	w.want("write dir/new")
	must(t, os.Chmod(at(f, "dir/new"), 0o600))
	w.want("chmod dir/new")
	must(t, os.Rename(at(f, "dir/new"), at(f, "dir/newer")))
	w.want("rename dir/new -> dir/newer")
	must(t, os.Rename(at(f, "dir/newer"), at(f, "newest")))
	w.want("remove dir/newer")
	must(t, os.Rename(at(f, "elsewhere"), at(f, "dir/here")))
	w.want("create dir/here")
	put(t, f, "dir/sub/unseen", "x")
	must(t, os.Remove(at(f, "dir/old")))
	w.want("remove dir/old")
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
		w.until("create " + want + "x\n\xff")
		must(t, os.Remove(at(f, "dir/sub/x\n\xff")))
		w.stop()
		w.wantEnd(context.Canceled)
	}
}

// Directories that are made at once, with files in them, are reported completely,
// even if files appeared before the watch could be set. Each file is reported once.
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
	w.until("create ./end")
	// The last events may come after the one for end, because they are from another
	// directory.
	for range 5 {
		put(t, f, "d19/e/f/flush", "")
		w.until("create ./d19/e/f/flush")
		must(t, os.Remove(at(f, "d19/e/f/flush")))
		w.until("remove ./d19/e/f/flush")
	}
	for event, n := range want {
		if got := count(w.seen, event); got != n {
			t.Errorf("%d times %q, want %d", got, event, n)
		}
	}
}

func TestWatchRemovedAndRemadeDirectory(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a/b/")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	for i := range 10 {
		must(t, os.RemoveAll(at(f, "dir/a")))
		w.until("remove dir/a")
		makeTree(t, f, "dir/a/b/")
		w.until("create dir/a/b")
		put(t, f, fmt.Sprintf("dir/a/b/%d", i), "")
		w.until("create " + fmt.Sprintf("dir/a/b/%d", i))
	}
}

func TestWatchEndsWithItsRoot(t *testing.T) {
	f := newTestFS(t)
	for _, recursive := range []bool{false, true} {
		makeTree(t, f, "dir/sub/x")
		w := watchFor(t, f, "dir", WatchOptions{Recursive: recursive})
		must(t, os.RemoveAll(at(f, "dir")))
		w.until("remove dir")
		w.wantEnd(nil)

		makeTree(t, f, "dir/sub/x")
		w = watchFor(t, f, "dir", WatchOptions{Recursive: recursive})
		must(t, os.Rename(at(f, "dir"), at(f, "moved")))
		w.want("remove dir")
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
		if before := w.until("create file"); len(before) > 0 {
			t.Errorf("other events: %q", before)
		}
		file, err := os.OpenFile(at(f, "file"), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		_, err = file.WriteString("more")
		must(t, errors.Join(err, file.Close()))
		w.until("write file")
	}
	must(t, os.Remove(at(f, "file")))
	w.until("remove file")
	w.wantEnd(nil)
}

func TestWatchDoesNotFollowLinks(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/link -> ../elsewhere", "elsewhere/", "dir/loop -> .")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	makeTree(t, f, "elsewhere/x", "dir/later -> ../elsewhere", "elsewhere/y", "dir/end")
	for _, event := range w.until("create dir/end") {
		if event != "create dir/later" {
			t.Errorf("event %q", event)
		}
	}
}

func TestWatchMissingPath(t *testing.T) {
	f := newTestFS(t)
	err := onlyError(t, f.Watch(t.Context(), "missing", WatchOptions{}))
	wantPathError(t, err, "watch", "missing", fs.ErrNotExist)
}

// A real overflow: nobody takes events until the kernel's queue is full.
func TestWatchOverflowIsReported(t *testing.T) {
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	must(t, err)
	var queue int
	_, err = fmt.Sscan(string(limit), &queue)
	must(t, err)
	f := newTestFS(t)
	makeTree(t, f, "dir/x")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	for i := range 2*queue + 20_000 { // alternating, because equal events are merged
		must(t, os.Chmod(at(f, "dir/x"), 0o600))
		if i%4 == 0 {
			must(t, os.Truncate(at(f, "dir/x"), 0))
		}
	}
	w.until("overflow dir")
	makeTree(t, f, "dir/later/x")
	w.until("create dir/later/x")
}
