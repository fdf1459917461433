package watch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Whichever events were lost, everything is watched again before the caller learns
// of the loss.
func TestOverflowWatchesEverythingAgain(t *testing.T) {
	root := filepath.Join(t.TempDir(), "dir")
	must(t, os.MkdirAll(filepath.Join(root, "a"), 0o777))
	var events []string
	w := &watcher{ctx: t.Context(), opts: Options{Root: root, Recursive: true}, yield: func(e Event) bool {
		events = append(events, eventText(e))
		return true
	}}
	must(t, w.open())
	defer func() { w.notify.Close() }()
	must(t, os.MkdirAll(filepath.Join(root, "a/new/deep"), 0o777))
	must(t, w.failure(fsnotify.ErrEventOverflow))
	if diff := cmp.Diff([]string{"overflow "}, events); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(w.notify.WatchList()); n != 4 {
		t.Errorf("%d directories are watched, want 4", n)
	}
	must(t, os.RemoveAll(root))
	if err := w.failure(fsnotify.ErrEventOverflow); !errors.Is(err, errDone) || events[1] != "remove " {
		t.Errorf("without a root: error %v, events %q", err, events)
	}
}
