package fsops

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestWatchRenamesOfFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/sub/", "dir/a", "dir/over", "out/in")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	must(t, os.Rename(at(f, "dir/a"), at(f, "dir/sub/b\xff\" ← \"")))
	w.want("rename dir/a -> dir/sub/b\xff\" ← \"")
	must(t, os.Rename(at(f, "dir/sub/b\xff\" ← \""), at(f, "dir/over")))
	w.want("rename dir/sub/b\xff\" ← \" -> dir/over")
	for i := range 3 { // in quick succession
		must(t, os.Rename(at(f, "dir/over"), at(f, fmt.Sprintf("dir/%d", i))))
		must(t, os.Rename(at(f, fmt.Sprintf("dir/%d", i)), at(f, fmt.Sprintf("dir/sub/%d", i))))
		must(t, os.Rename(at(f, fmt.Sprintf("dir/sub/%d", i)), at(f, "dir/over")))
	}
	for i := range 3 {
		w.want(fmt.Sprintf("rename dir/over -> dir/%d", i),
			fmt.Sprintf("rename dir/%d -> dir/sub/%[1]d", i),
			fmt.Sprintf("rename dir/sub/%d -> dir/over", i))
	}
	put(t, f, "dir/over", "written")
	w.want("write dir/over")
	must(t, os.Rename(at(f, "dir/over"), at(f, "out/over")))
	w.want("remove dir/over")
	must(t, os.Rename(at(f, "out/in"), at(f, "dir/in")))
	w.want("create dir/in")
}

// A file that left is not confused with a new file of its name, or with one that
// came at the same time.
func TestWatchRenamesAreNotConfused(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a", "out/b")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	must(t, os.Rename(at(f, "dir/a"), at(f, "out/a")))
	must(t, os.Rename(at(f, "out/b"), at(f, "dir/b")))
	w.want("remove dir/a", "create dir/b")
	must(t, os.Rename(at(f, "dir/b"), at(f, "out/b")))
	put(t, f, "dir/b", "")
	must(t, os.Rename(at(f, "dir/b"), at(f, "dir/c")))
	w.want("remove dir/b", "create dir/b", "rename dir/b -> dir/c")
}

func TestWatchRenamesOfDirectories(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/a/deep/file", "dir/b/", "dir/empty/", "out/")
	time.Sleep(200 * time.Millisecond) // twice as long as a watch looks back, so nothing here counts as new
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	must(t, os.Rename(at(f, "dir/a"), at(f, "dir/b/c")))
	w.want("rename dir/a -> dir/b/c")
	put(t, f, "dir/b/c/deep/x", "")
	w.want("create dir/b/c/deep/x")
	makeTree(t, f, "dir/a/deep/x") // new files with the old names
	w.want("create dir/a", "create dir/a/deep", "create dir/a/deep/x")
	put(t, f, "dir/b/c/deep/x", "written")
	w.want("write dir/b/c/deep/x")
	must(t, syscall.Rename(at(f, "dir/b/c"), at(f, "dir/empty"))) // replaces another directory
	w.want("rename dir/b/c -> dir/empty")
	put(t, f, "dir/empty/y", "")
	w.until("create dir/empty/y") // after the event for x, which was just written
	// Out of the tree and back in.
	must(t, os.Rename(at(f, "dir/empty"), at(f, "out/c")))
	w.want("remove dir/empty")
	put(t, f, "out/c/deep/unseen", "")
	must(t, os.Rename(at(f, "out/c"), at(f, "dir/in")))
	w.want("create dir/in")
	want := map[string]int{"create dir/in/deep": 1, "create dir/in/deep/file": 1, "create dir/in/deep/x": 1, "create dir/in/deep/unseen": 1, "create dir/in/y": 1}
	for range len(want) {
		want[eventText(w.next())]--
	}
	for event, n := range want {
		if n != 0 {
			t.Errorf("%d events %q are missing", n, event)
		}
	}
	put(t, f, "dir/in/deep/z", "")
	w.want("create dir/in/deep/z")
}

// Changes in a directory during its renaming are not missed: in the end, a copy of
// the tree that is built only from events is the same.
func TestWatchRenamedDirectoriesHaveNoGap(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/0/sub/")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	r := newReplica(t, f, "dir")
	for i := range 200 {
		dir := fmt.Sprintf("dir/%d", i)
		put(t, f, dir+"/old", "")
		put(t, f, dir+"/sub/old", "")
		next := fmt.Sprintf("dir/%d", i+1)
		must(t, os.Rename(at(f, dir), at(f, next)))
		must(t, os.Remove(at(f, next+"/old")))
		must(t, os.Remove(at(f, next+"/sub/old")))
		put(t, f, fmt.Sprintf("%s/%d", next, i), "")
		put(t, f, fmt.Sprintf("%s/sub/%d", next, i), "")
	}
	r.follow(w)
}
