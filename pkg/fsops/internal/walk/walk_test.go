package walk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newTree makes a directory of files: "a/b" is a file, "a/b/" a directory, and "a
// -> b" a symbolic link. The content of a file is its name.
func newTree(t testing.TB, files ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, file := range files {
		name, target, isLink := strings.Cut(file, " -> ")
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o777))
		switch {
		case isLink:
			must(t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o777))
		default:
			must(t, os.WriteFile(path, []byte(name), 0o666))
		}
	}
	return root
}

// walked collects the results of a walk: paths with types, and errors.
type walked struct {
	mu     sync.Mutex
	types  map[string]fs.FileMode
	errs   map[string]error
	doubly []string
}

func (w *walked) visit(_ int, e *Entry) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.Err != nil {
		w.errs[e.Rel()] = e.Err
		return nil
	}
	if _, ok := w.types[e.Rel()]; ok {
		w.doubly = append(w.doubly, e.Rel())
	}
	w.types[e.Rel()] = e.Type
	return nil
}

func (w *walked) paths() []string { return slices.Sorted(maps.Keys(w.types)) }

func walkAll(t testing.TB, root string, opts Options) *walked {
	t.Helper()
	w := &walked{types: map[string]fs.FileMode{}, errs: map[string]error{}}
	must(t, Tree(t.Context(), root, opts, w.visit))
	if len(w.doubly) > 0 {
		t.Errorf("visited twice: %q", w.doubly)
	}
	return w
}

func TestTreeVisitsWhatWalkDirDoes(t *testing.T) {
	var files []string
	for i := range 40 {
		for j := range 30 {
			files = append(files, fmt.Sprintf("d%d/e%d/f%d", i%7, j%5, i*j), fmt.Sprintf("wide/%d-%d", i, j), fmt.Sprintf("d%d/.e%d/\xff\n%d/", i, j%3, j))
		}
	}
	root := newTree(t, append(files, "link -> d1", "dangling -> nowhere")...)
	want := map[string]fs.FileMode{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, path); rel != "." {
			want[filepath.ToSlash(rel)] = d.Type()
		}
		return err
	}))
	for _, workers := range []int{0, 1, 2, 8} {
		got := walkAll(t, root, Options{Workers: workers})
		if diff := cmp.Diff(want, got.types); diff != "" || len(got.errs) > 0 {
			t.Errorf("%d workers: WalkDir (-) and Tree (+) disagree, errors %v:\n%s", workers, got.errs, diff)
		}
	}
}

func TestTreeLeavesOutWhatOptionsExclude(t *testing.T) {
	root := newTree(t, ".git/config", ".h/a", "b/.c", "b/d.o", "b/e/f", "g/d.o", "g/.keep/x")
	must(t, os.WriteFile(root+"/.gitignore", []byte("*.o\n!.keep\n"), 0o666))
	must(t, os.WriteFile(root+"/g/.gitignore", []byte("!*.o\n"), 0o666))
	rules, err := ignore.Open(root, root)
	must(t, err)
	for _, test := range []struct {
		opts Options
		want []string
	}{
		{Options{NoGit: true, NoHidden: true}, []string{"b", "b/d.o", "b/e", "b/e/f", "g", "g/d.o"}},
		{Options{NoHidden: true, Ignore: rules}, []string{".git", ".git/config", "b", "b/e", "b/e/f", "g", "g/.keep", "g/.keep/x", "g/d.o"}},
		{Options{NoGit: true, Ignore: rules}, []string{".gitignore", ".h", ".h/a", "b", "b/.c", "b/e", "b/e/f", "g", "g/.gitignore", "g/.keep", "g/.keep/x", "g/d.o"}},
		{Options{NoHidden: true, NoGit: true, Prune: func(rel string, typ fs.FileMode) bool {
			return rel == "g" && typ.IsDir() || rel == "b/e/f"
		}}, []string{"b", "b/d.o", "b/e"}},
	} {
		if diff := cmp.Diff(test.want, walkAll(t, root, test.opts).paths()); diff != "" {
			t.Errorf("%+v: want (-), got (+):\n%s", test.opts, diff)
		}
	}
}

func TestTreeKnowsTheRulesOfDirectoriesTooLargeForABatch(t *testing.T) {
	root := newTree(t, "large/ignored/x")
	must(t, os.WriteFile(root+"/large/.gitignore", []byte("ignored\n"), 0o666))
	for i := range 2 * batchEntries {
		must(t, os.Link(root+"/large/.gitignore", fmt.Sprintf("%s/large/%d", root, i)))
	}
	rules, err := ignore.Open(root, root)
	must(t, err)
	got := walkAll(t, root, Options{Workers: 4, Ignore: rules}).types
	if _, ok := got["large/ignored"]; ok || len(got) != 2+2*batchEntries {
		t.Errorf("%d files visited, the ignored one: %v", len(got), ok)
	}
}

func TestTreeReportsRulesThatCannotBeRead(t *testing.T) {
	root := newTree(t, "a/.ignore/", "a/b", "a/.rgignore -> .rgignore", "c/.git/info/exclude -> exclude")
	rules, err := ignore.Open(root, root)
	must(t, err)
	got := walkAll(t, root, Options{Ignore: rules, NoGit: true})
	if want := []string{"a", "a/.ignore", "a/.rgignore", "a/b", "c"}; !slices.Equal(got.paths(), want) {
		t.Errorf("visited %q, want %q", got.paths(), want)
	}
	if got.errs["a/.rgignore"] == nil || got.errs["c/.git/info/exclude"] == nil || len(got.errs) != 2 {
		t.Errorf("errors are %v, want those of a/.rgignore and c/.git/info/exclude, which are links to themselves", got.errs)
	}
}

func TestTreeFollowsLinksButNotInCircles(t *testing.T) {
	root := newTree(t, "a/b/c", "a/b/up -> ..", "a/self -> .", "link -> a/b", "file -> a/b/c", "dangling -> nowhere", "loop -> loop", "top -> .")
	got := walkAll(t, root, Options{Workers: 4, Follow: true})
	want := []string{"a", "a/b", "a/b/c", "a/b/up", "a/self", "file", "link", "link/c", "link/up", "link/up/b", "link/up/self", "top"}
	want = append(want, "link/up/b/c", "link/up/b/up") // once more, by another way
	slices.Sort(want)
	if diff := cmp.Diff(want, got.paths()); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	for _, rel := range []string{"a/b/up", "a/self", "top", "link/up/self", "link/up/b/up"} {
		if !errors.Is(got.errs[rel], ErrCycle) {
			t.Errorf("%s: error is %v, want a cycle", rel, got.errs[rel])
		}
	}
	if !errors.Is(got.errs["dangling"], fs.ErrNotExist) || got.errs["loop"] == nil {
		t.Errorf("links that lead nowhere: %v", got.errs)
	}
	if typ := got.types["file"]; !typ.IsRegular() {
		t.Errorf("the link to a file has the type %v", typ)
	}
}

func TestTreeEntersWhatVisitSays(t *testing.T) {
	root := newTree(t, "a/b/c", "d/e", "link -> a", "broken -> nowhere", "file -> d/e")
	var mu sync.Mutex
	got := map[string]any{}
	must(t, Tree(t.Context(), root, Options{Workers: 3, Value: "top"}, func(_ int, e *Entry) error {
		mu.Lock()
		defer mu.Unlock()
		got[e.Rel()] = e.Value()
		switch {
		case e.Name == "d":
			e.Skip()
		case e.Rel() == "a", e.Type == fs.ModeSymlink:
			e.Enter("in " + e.Name)
		}
		return e.Err
	}))
	want := map[string]any{
		"a": "top", "d": "top", "link": "top", "broken": "top", "file": "top",
		"a/b": "in a", "a/b/c": "in a", "link/b": "in link", "link/b/c": "in link",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestTreeWithoutARoot(t *testing.T) {
	root := newTree(t, "file")
	for name, class := range map[string]error{"missing": fs.ErrNotExist, "file": nil} {
		got := walkAll(t, filepath.Join(root, name), Options{Workers: 2})
		if err := got.errs[""]; err == nil || class != nil && !errors.Is(err, class) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestTreeDoesNotMindWhatIsRemovedMeanwhile(t *testing.T) {
	var files []string
	for i := range 2000 {
		files = append(files, fmt.Sprintf("%d/%d/x", i%50, i))
	}
	root := newTree(t, files...)
	var visits atomic.Int64
	must(t, Tree(t.Context(), root, Options{Workers: 4}, func(_ int, e *Entry) error {
		if e.Name != "x" && visits.Add(1)%3 == 0 {
			must(t, os.RemoveAll(filepath.Join(root, e.Rel())))
		}
		return e.Err
	}))
}

func TestTreeEndsWithVisitsErrorOrItsContexts(t *testing.T) {
	var files []string
	for i := range 5000 {
		files = append(files, fmt.Sprintf("%d/%d", i%100, i))
	}
	root := newTree(t, files...)
	for _, workers := range []int{1, 4} {
		failure := errors.New("enough")
		var after atomic.Int64
		err := Tree(t.Context(), root, Options{Workers: workers}, func(_ int, e *Entry) error {
			if after.Add(1) >= 10 {
				return failure
			}
			return nil
		})
		if err != failure || after.Load() > 10+int64(workers) {
			t.Errorf("%d workers: error is %v after %d visits", workers, err, after.Load())
		}
		ctx, cancel := context.WithCancel(t.Context())
		var visits atomic.Int64
		var once sync.Once
		err = Tree(ctx, root, Options{Workers: workers}, func(int, *Entry) error {
			once.Do(cancel)
			time.Sleep(time.Millisecond)
			visits.Add(1)
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%d workers: error is %v, want that of the context", workers, err)
		}
		if visits.Load() > 1000 {
			t.Errorf("%d visits after the end of the context", visits.Load())
		}
		if err := Tree(ctx, root, Options{}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v for a context that had ended before", err)
		}
	}
}

func TestOpenFileReadsThatFile(t *testing.T) {
	root := newTree(t, "a/b/c", "d", "empty/")
	var mu sync.Mutex
	got := map[string]string{}
	must(t, Tree(t.Context(), root, Options{Workers: 2}, func(_ int, e *Entry) error {
		if !e.Type.IsRegular() {
			return nil
		}
		file, err := e.OpenFile()
		if err != nil {
			return err
		}
		defer file.Close()
		text := make([]byte, file.Size()+10)
		n, err := file.Read(text)
		mu.Lock()
		got[e.Rel()] = string(text[:n])
		mu.Unlock()
		return err
	}))
	if diff := cmp.Diff(map[string]string{"a/b/c": "a/b/c", "d": "d"}, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestWalksEndWithTheirContextThoughEverythingIsLeftOut(t *testing.T) {
	const entries = 1000
	var names []string
	for i := range entries {
		names = append(names, fmt.Sprint(i))
	}
	root := newTree(t, names...)
	for name, walk := range map[string]func(context.Context, Options) error{
		"tree": func(ctx context.Context, o Options) error {
			return Tree(ctx, root, o, func(int, *Entry) error { return nil })
		},
		"sorted": func(ctx context.Context, o Options) error { drain(Sorted(ctx, root, o)); return ctx.Err() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		err := walk(ctx, Options{Prune: func(string, fs.FileMode) bool {
			asked++
			cancel()
			time.Sleep(50 * time.Millisecond) // a tree notices it a little later
			return true
		}})
		if !errors.Is(err, context.Canceled) || asked == entries {
			t.Errorf("%s: error %v after %d entries", name, err, asked)
		}
	}
}

func drain(entries iter.Seq[SortedEntry]) {
	for range entries {
	}
}
