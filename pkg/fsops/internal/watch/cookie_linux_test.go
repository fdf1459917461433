package watch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// The library's text has the old name, which it offers in no other way.
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
					t.Errorf("of %v the old name is %q, want %q", e, got, old)
				}
				return
			}
			if got := renamedFrom(e); got != "" {
				t.Errorf("of %v the old name is %q, want none", e, got)
			}
		case err := <-notify.Errors:
			t.Fatal(err)
		case <-end:
			t.Fatal("no event")
		}
	}
}
