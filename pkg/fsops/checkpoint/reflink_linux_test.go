package checkpoint_test

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// Where the file system can do that, a large file, its object and what a restore makes of it share their blocks, until
// somebody writes to one of them.
func TestLargeFilesShareTheirBlocks(t *testing.T) {
	dir := reflinkDisk(t)
	root := filepath.Join(dir, "tree")
	noise := make([]byte, 32<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	writeFiles(t, root, map[string]string{"large": string(noise)})
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := usedOf(t, dir)
	c := create(t, s)
	if more := usedOf(t, dir) - before; more > 4<<20 {
		t.Errorf("a checkpoint of 32 MiB takes %d bytes more", more)
	}
	file, err := os.OpenFile(filepath.Join(root, "large"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, 1<<20), 8<<20); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	if readFiles(t, root)["large"] != string(noise) {
		t.Error("the file does not come back as it was")
	}
	// The restore has made a checkpoint of the changed file, of which one MiB is its own.
	if more := usedOf(t, dir) - before; more > 8<<20 {
		t.Errorf("after a restore of 32 MiB there are %d bytes more", more)
	}
}

// Random trees come back from objects that share blocks with them, too.
func TestRandomTreesComeBackByReflinks(t *testing.T) {
	t.Setenv("TMPDIR", reflinkDisk(t))
	for seed := range uint64(10) {
		rt := newRandomTree(t, seed)
		rt.large = 2 // only large files without holes are cloned
		roundTrip(t, rt, seed)
	}
}

// reflinkDisk returns a directory on a file system of its own whose files can share blocks.
func reflinkDisk(t *testing.T) string {
	t.Helper()
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 512<<20); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkfs.btrfs", "-q", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s, which needs root and btrfs-progs: %v\n%s", args[0], err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return dir
}

// usedOf returns how many bytes of a file system are used, once all is written.
func usedOf(t *testing.T, dir string) int64 {
	t.Helper()
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Syncfs(int(file.Fd())); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}
