package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// fsnotify exposes the old name only in the text of an event.
func TestFsnotifyTellsTheOldName(t *testing.T) {
	dir := t.TempDir()
	notify, err := fsnotify.NewWatcher()
	must(t, err)
	defer notify.Close()
	must(t, notify.Add(dir))
	old := filepath.Join(dir, "old\" ← \"\\\n\xff")
	must(t, os.WriteFile(old, nil, 0o600))
	must(t, os.Rename(old, filepath.Join(dir, "new\" ← \"")))
	for end := time.After(2 * time.Minute); ; {
		select {
		case e := <-notify.Events:
			if e.Name == filepath.Join(dir, "new\" ← \"") {
				if got := renamedFrom(e); got != old {
					t.Errorf("the old name in %v is %q, want %q", e, got, old)
				}
				return
			}
			if got := renamedFrom(e); got != "" {
				t.Errorf("the old name in %v is %q, want none", e, got)
			}
		case err := <-notify.Errors:
			t.Fatal(err)
		case <-end:
			t.Fatal("no event")
		}
	}
}
