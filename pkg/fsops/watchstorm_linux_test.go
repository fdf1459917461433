package fsops

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A replica is a tree of names that is updated only from events.
type replica struct {
	t     *testing.T
	f     *FS
	root  string
	names map[string]bool
}

func newReplica(t *testing.T, f *FS, root string) *replica {
	r := &replica{t: t, f: f, root: root}
	r.names = r.real()
	return r
}

// real returns the names in the real tree.
func (r *replica) real() map[string]bool {
	names := map[string]bool{}
	must(r.t, filepath.WalkDir(at(r.f, r.root), func(path string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(r.f.Workdir(), path); rel != r.root {
			names[rel] = true
		}
		return err
	}))
	return names
}

// below returns the names that begin with a path.
func (r *replica) below(path string) []string {
	var names []string
	for name := range r.names {
		if name == path || strings.HasPrefix(name, path+"/") {
			names = append(names, name)
		}
	}
	return names
}

func (r *replica) apply(e WatchEvent) {
	switch e.Op {
	case WatchCreate:
		r.names[e.Path] = true
	case WatchRemove:
		r.remove(e.Path)
	case WatchRename:
		moved := r.below(e.From)
		r.remove(e.From)
		r.remove(e.Path)
		r.names[e.Path] = true
		for _, name := range moved {
			r.names[e.Path+strings.TrimPrefix(name, e.From)] = true
		}
	case WatchOverflow:
		r.names = r.real()
	}
}

func (r *replica) remove(path string) {
	for _, name := range r.below(path) {
		delete(r.names, name)
	}
}

// follow applies events until the replica equals the tree, which must not change
// any more. It then checks that it stays so, up to the event of one last file.
func (r *replica) follow(w *watching) {
	r.t.Helper()
	want := r.real()
	r.take(w, func() bool { return cmp.Equal(r.names, want) })
	last := r.root + "/last"
	put(r.t, r.f, last, "")
	r.take(w, func() bool { return r.names[last] })
	want[last] = true
	if diff := cmp.Diff(want, r.names); diff != "" {
		r.t.Fatalf("after the last event (-want +got):\n%s\n%s", diff, w.latest())
	}
}

// take applies events until holds returns true.
func (r *replica) take(w *watching, holds func() bool) {
	r.t.Helper()
	for !holds() {
		select {
		case e := <-w.events:
			r.apply(e)
			w.seen = append(w.seen, eventText(e))
		case err := <-w.ended:
			r.t.Fatalf("the watch ended: %v", err)
		case <-time.After(hung):
			r.t.Fatalf("the tree and the replica (-want +got):\n%s\n%s", cmp.Diff(r.real(), r.names), w.latest())
		}
	}
}

// latest returns the last events as text.
func (w *watching) latest() string {
	return strings.Join(w.seen[max(0, len(w.seen)-100):], "\n")
}

// Thousands of files that are created and written at once, as by git clone, are
// reported once each.
func TestWatchOfThousandsOfFilesIsNoStorm(t *testing.T) {
	const storm = 40 // directories, of 50 files each
	f := newTestFS(t)
	w := watchFor(t, f, ".", WatchOptions{Recursive: true})
	want := map[string]int{}
	made := make(chan struct{})
	go func() {
		defer close(made)
		for i := range storm {
			for j := range 50 {
				dir := fmt.Sprintf("a%d/b%d", i, j%5)
				makeTree(t, f, dir+"/")
				for k := range 3 {
					put(t, f, fmt.Sprintf("%s/%d", dir, j), strings.Repeat("x", k))
				}
			}
		}
		put(t, f, "end", "")
	}()
	for i := range storm {
		want[fmt.Sprintf("create ./a%d", i)] = 1
		for j := range 5 {
			want[fmt.Sprintf("create ./a%d/b%d", i, j)] = 1
		}
		for j := range 50 {
			want[fmt.Sprintf("create ./a%d/b%d/%d", i, j%5, j)] = 1
		}
	}
	w.until("create ./end")
	<-made
	got := map[string]int{}
	others := 0
	for _, event := range w.seen {
		if _, ok := want[event]; ok {
			got[event]++
		} else {
			others++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if others > len(want) {
		t.Errorf("%d other events, for %d files", others, len(want))
	}
}

// Whatever several writers do to a tree, including renaming directories within, out
// of and into it, the events finally describe the tree.
func TestWatchEventsMatchTheTree(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newTestFS(t)
			makeTree(t, f, "tree/", "out/")
			w := watchFor(t, f, "tree", WatchOptions{Recursive: true})
			r := newReplica(t, f, "tree")
			var writers sync.WaitGroup
			for i := range 3 {
				random := rand.New(rand.NewPCG(seed, uint64(i)))
				writers.Go(func() { disturb(f, random, 1500) })
			}
			drained := make(chan struct{})
			go func() {
				writers.Wait()
				close(drained)
			}()
			for done := false; !done; {
				select {
				case e := <-w.events:
					r.apply(e)
					w.seen = append(w.seen, eventText(e))
				case <-drained:
					done = true
				}
			}
			put(t, f, "tree/end", "")
			r.follow(w)
		})
	}
}

// disturb makes random changes to a tree. Some of them fail.
func disturb(f *FS, random *rand.Rand, steps int) {
	name := func() string {
		path := "tree"
		if random.IntN(10) == 0 {
			path = "out"
		}
		for range 1 + random.IntN(3) {
			path += fmt.Sprintf("/%d", random.IntN(4))
		}
		return at(f, path)
	}
	for range steps {
		switch random.IntN(6) {
		case 0, 1:
			_ = os.MkdirAll(name(), 0o755)
		case 2:
			_ = os.WriteFile(name(), []byte("x"), 0o644)
		case 3, 4:
			_ = os.Rename(name(), name())
		case 5:
			_ = os.RemoveAll(name())
		}
		if random.IntN(50) == 0 {
			time.Sleep(time.Duration(random.IntN(8)) * time.Millisecond)
		}
	}
}
