package launcher

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A process of the sandbox that still runs puts a link in a directory's place, again and again.
func TestUnlockingATreeFollowsNoLinkOutOfIt(t *testing.T) {
	victim, tree := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	dir, link := filepath.Join(tree, "a", "dir"), filepath.Join(tree, "link")
	if err := os.MkdirAll(filepath.Join(dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(victim, "below"), 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(victim, 0o500); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
		}
	}()
	for range 300 {
		_ = unlockTree(tree) // it may say that a link leads out
	}
	close(stop)
	<-stopped
	for _, path := range []string{victim, filepath.Join(victim, "below")} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o500 {
			t.Errorf("%s has mode %v now, %v", path, info.Mode(), err)
		}
	}
}
