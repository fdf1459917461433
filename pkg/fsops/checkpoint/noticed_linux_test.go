package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// What a crash of the machine has lost of the objects, the next checkpoint stores again.
func TestObjectsThatACrashLostAreStoredAgain(t *testing.T) {
	files := map[string]string{"a": "1", "large": random(1<<20 + 1)}
	root, s := newTree(t, files, checkpoint.Options{Boot: "before"})
	create(t, s)
	store := filepath.Join(filepath.Dir(root), "store")
	for _, path := range storeFiles(t, store) {
		if dir := filepath.Dir(path); dir == "packs" || dir == "objects" {
			overwrite(t, filepath.Join(store, path), nil)
		}
	}
	next, err := checkpoint.Open(store, root, checkpoint.Options{Boot: "after"})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, next)
	writeFiles(t, root, map[string]string{"a": "2", "large": "2"})
	if _, err := next.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(files, readFiles(t, root)); diff != "" {
		t.Error("it is not what it was")
	}
}

// The times of files on tmpfs tell nothing of what is written to memory that is mapped from them.
func TestCheckpointHasWhatIsWrittenToMappedMemoryOnTmpfs(t *testing.T) {
	dir := smallDisk(t, "size=16m")
	root := filepath.Join(dir, "tree")
	writeFiles(t, root, map[string]string{"mapped": "0"})
	file, err := os.OpenFile(filepath.Join(root, "mapped"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := unix.Mmap(int(file.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mem)
	mem[0] = '1'
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	awaitOld(t, filepath.Join(root, "mapped"))
	create(t, s)
	mem[0] = '2'
	c := create(t, s)
	mem[0] = '3'
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil || readFiles(t, root)["mapped"] != "2" {
		t.Errorf("it has %q, %v", readFiles(t, root)["mapped"], err)
	}
}

// awaitOld waits until a file was changed so long ago that a scan believes its time.
func awaitOld(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for time.Since(info.ModTime()) < 50*time.Millisecond {
		time.Sleep(time.Millisecond)
	}
}
