package checkpoint_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A writer changes files in every way that commands do, and knows what it has left in them since it was last asked.
type writer struct {
	root  string
	names []string
	mu    sync.Mutex        // held while it writes
	last  map[string]string // by path, since it was asked
	stop  chan struct{}
	done  sync.WaitGroup
}

func newWriter(root string, names []string) *writer {
	w := &writer{root: root, names: names, last: map[string]string{}, stop: make(chan struct{})}
	w.done.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-w.stop:
				return
			default:
				w.change(n)
			}
		}
	})
	return w
}

// change gives a file its nth content: in place, or by a rename. All contents of a file are of one size.
func (w *writer) change(n int) {
	w.write(w.names[n%len(w.names)], n, n/len(w.names)%2 == 0)
}

func (w *writer) write(name string, n int, inPlace bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf(written+"%010d to %s", n, name)
	path := filepath.Join(w.root, name)
	if inPlace && writeInPlace(path, text) || !inPlace && replace(path, text) {
		w.last[name] = text
	}
}

// written is what all texts of a writer begin with.
const written = "written "

// writeInPlace reports whether a file that is called so has the text. What is written to a file that a restore has taken
// away meanwhile is lost, as it is with a file that is removed.
func writeInPlace(path, text string) bool {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return false
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(text), 0); err != nil {
		return false
	}
	written, err := file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(written, there)
}

func replace(path, text string) bool {
	tmp := path + ".tmp"
	return os.WriteFile(tmp, []byte(text), 0o644) == nil && os.Rename(tmp, path) == nil
}

func TestFileThatNeverKeepsStillIsNamed(t *testing.T) {
	root, s := newTree(t, map[string]string{"moving": "", "still": "it is"}, checkpoint.Options{})
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		text := make([]byte, 8<<20)
		for {
			select {
			case <-stop:
				return
			default:
			}
			text[0]++
			if err := os.WriteFile(filepath.Join(root, "moving"), text, 0o644); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer writer.Wait()
	defer close(stop)
	const most = 1000 // since it may keep still for a moment
	for range most {
		moving := create(t, s).Moving
		if slices.Contains(moving, "still") {
			t.Fatal(moving)
		}
		if slices.Contains(moving, "moving") {
			return
		}
	}
	t.Errorf("%d checkpoints had all of it at one moment", most)
}

// Nothing that a command writes during a restore is lost: it is there, or in the checkpoint of before. And nothing else is there
// but what the checkpoint has.
func TestRestoreUnderAWriterLosesNothing(t *testing.T) {
	names := strings.Fields("a b c d e f new1 new2") // some of which the checkpoint lacks
	files := map[string]string{}
	const calm = "calm" // is written before each restore, and not meanwhile
	for _, name := range append(names[:6:6], calm) {
		files[name] = "of the checkpoint"
	}
	dir := smallDisk(t, "size=64m") // where no restore waits for a disk
	root := filepath.Join(dir, "tree")
	writeFiles(t, root, files)
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	w := newWriter(root, names)
	defer w.done.Wait()
	defer close(w.stop)
	kept, replaced := 0, 0
	const fewest, most = 20, 1000
	for n := 0; (n < fewest || kept == 0 || replaced == 0) && !t.Failed(); n++ {
		w.write(calm, n, n%2 == 0)
		done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
		if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
			t.Fatal(err)
		}
		kept += len(done.Kept)
		named := slices.ContainsFunc(done.Kept, func(l checkpoint.LeftOut) bool { return l.Path == calm })
		if text, err := os.ReadFile(filepath.Join(root, calm)); !named && (err != nil || string(text) != files[calm]) {
			t.Fatalf("nobody wrote to %s during the restore, which does not name it: %q, %v", calm, text, err)
		}
		replaced += w.wantAll(t, s, files, c.ID, done.Before.ID)
		if n == most {
			t.Fatalf("the restores have kept %d files that were written meanwhile, and replaced %d", kept, replaced)
		}
	}
}

// wantAll expects each text that the writer has left since it was last asked in the tree or in a checkpoint, or a newer one
// of the same file, and returns how many are in the latter alone. A text that went into a file which had lost its name
// meanwhile does not count as left, but it may have taken the place of one that does.
func (w *writer) wantAll(t *testing.T, s *checkpoint.Store, files map[string]string, first, before checkpoint.ID) (replaced int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var kept strings.Builder // the contents of before, and of what a restore has called otherwise
	for d, err := range s.Diff(t.Context(), first, before, checkpoint.DiffOptions{Text: true}) {
		if err != nil {
			t.Fatal(err)
		}
		kept.Write(d.Diff)
	}
	paths, err := filepath.Glob(filepath.Join(w.root, ".podagent-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kept.Write(text)
	}
	latest := newest(kept.String())
	for name, text := range w.last {
		now, err := os.ReadFile(filepath.Join(w.root, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(string(now), written) && string(now) >= text:
		case err == nil && string(now) != files[name]:
			t.Errorf("%s has %q, which is of nobody, or older than %q", name, now, text)
		case latest[name] < text:
			t.Errorf("%q, which was written to %s, is nowhere", text, name)
		default:
			replaced++
		}
	}
	clear(w.last)
	return replaced
}

var writtenText = regexp.MustCompile(written + `\d{10} to (\w+)`)

// newest returns the last of the texts for each name.
func newest(texts string) map[string]string {
	last := map[string]string{}
	for _, m := range writtenText.FindAllStringSubmatch(texts, -1) {
		last[m[1]] = max(last[m[1]], m[0])
	}
	return last
}
