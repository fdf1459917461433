package fsops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// inOrder returns the paths that match, in the order in which they arrive. The last
// one is "..." if the limit cut some off.
func inOrder(t testing.TB, f *FS, pattern string, opts GlobOptions) (paths []string) {
	t.Helper()
	var stats GlobStats
	opts.Stats = &stats
	for m, err := range f.Glob(t.Context(), pattern, opts) {
		must(t, err)
		paths = append(paths, m.Path)
	}
	if stats.Truncated {
		paths = append(paths, "...")
	}
	return paths
}

func TestGlobSortsByBytes(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a/x", "a-b", "a.c/y", "a0", "B", "a/-", "é", "\xff", "ab/c/d", "ab/c.d")
	var got []string
	for m, err := range f.Glob(t.Context(), "**", GlobOptions{Sort: GlobByName}) {
		must(t, err)
		got = append(got, m.Path)
	}
	if !slices.IsSorted(got) || len(got) != 14 {
		t.Errorf("%d paths, sorted %v: %q", len(got), slices.IsSorted(got), got)
	}
}

func TestGlobSortsByTimeLatestFirst(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "old", "d/new", "d/same", "also", "link -> old")
	now := time.Now()
	for name, age := range map[string]time.Duration{"old": time.Hour, "d/new": 0, "d/same": time.Minute, "also": time.Minute, "d": 2 * time.Hour} {
		must(t, os.Chtimes(at(f, name), now, now.Add(-age)))
	}
	want := []string{"link", "d/new", "also", "d/same", "old", "d"} // the link itself is the latest
	must(t, os.Chtimes(at(f, "d/new"), now, now.Add(-time.Second)))
	if diff := cmp.Diff(want, inOrder(t, f, "**", GlobOptions{Sort: GlobByTime})); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d"}, inOrder(t, f, "*/", GlobOptions{Sort: GlobByTime})); diff != "" {
		t.Errorf("directories: want (-), got (+):\n%s", diff)
	}
}

func TestGlobSortedWithLimitGivesTheFirst(t *testing.T) {
	f := newTestFS(t)
	now := time.Now()
	for i := range 100 {
		name := fmt.Sprintf("%d/%02d", i%7, i)
		makeTree(t, f, name)
		must(t, os.Chtimes(at(f, name), now, now.Add(time.Duration(i*37%100)*time.Second)))
	}
	for _, order := range []GlobSort{GlobByName, GlobByTime} {
		all := inOrder(t, f, "*/*", GlobOptions{Sort: order})
		for _, limit := range []int{1, 10, 99, 100, 101} {
			got := inOrder(t, f, "*/*", GlobOptions{Sort: order, Limit: limit})
			want := slices.Clone(all[:min(limit, 100)])
			if limit < 100 {
				want = append(want, "...")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("order %d, limit %d: want (-), got (+):\n%s", order, limit, diff)
			}
		}
	}
}

// Results that do not fit into memory are given in several passes.
func TestGlobSorterGivesAllInOrderWhateverItsMemory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	var items []globItem
	for i := range 1000 {
		items = append(items, globItem{path: fmt.Sprint("file", i), sec: rnd.Int64N(50)})
	}
	for _, order := range []GlobSort{GlobByName, GlobByTime} {
		want := slices.SortedFunc(slices.Values(items), func(a, b globItem) int { return order.compare(&a, &b) })
		for _, most := range []int{1, 1000, 10_000, 1 << 20} {
			var got []globItem
			sorter := newGlobSorter(order)
			sorter.most = most
			for sorter.more = true; sorter.more; {
				sorter.begin(0)
				rnd.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
				for _, item := range items {
					sorter.add(item)
				}
				got = append(got, sorter.end()...)
			}
			if !slices.Equal(got, want) {
				t.Errorf("order %d, %d bytes: %d items, not in order or not all", order, most, len(got))
			}
		}
	}
}

func TestGlobUnknownOrder(t *testing.T) {
	f := newTestFS(t)
	wantPathError(t, onlyError(t, f.Glob(t.Context(), "*", GlobOptions{Sort: 7})), "glob", "*", syscall.EINVAL)
}
