package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
)

// A tree may have what nobody can read to its end. A checkpoint has the rest, and says what it lacks.
func TestOddFilesHoldNothingUp(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1", "log": "1"}, checkpoint.Options{})
	at := func(name string) string { return filepath.Join(root, name) }
	log, err := os.OpenFile(at("log"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	err = errors.Join(unix.Mkfifo(at("fifo"), 0o600), unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0), os.WriteFile(at("huge"), nil, 0o600), os.Truncate(at("huge"), 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	nest(t, root, 2000)
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() { // a file that grows all the time
		for ctx.Err() == nil {
			_, _ = log.WriteString(strings.Repeat("more ", 100))
		}
	})
	c := create(t, s)
	stop()
	writer.Wait()
	var left []string
	for _, l := range c.LeftOut {
		left = append(left, l.Path)
	}
	deepest := strings.TrimSuffix(strings.Repeat("d/", 401), "/")
	if diff := cmp.Diff([]string{deepest, "socket"}, left); diff != "" {
		t.Error(diff)
	}
	writeFiles(t, root, map[string]string{"x": "2"})
	if err := errors.Join(os.Remove(at("fifo")), os.Remove(at("huge"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Error(err)
	}
	huge, hugeErr := os.Stat(at("huge"))
	fifo, fifoErr := os.Lstat(at("fifo"))
	if err := errors.Join(hugeErr, fifoErr); err != nil || huge.Size() != 1<<40 || fifo.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("huge: %v, fifo: %v, %v", huge, fifo, err)
	}
	if text, err := os.ReadFile(at("x")); err != nil || string(text) != "1" {
		t.Errorf("x has %q, %v", text, err)
	}
}

// nest makes directories in each other, and a file in the last one.
func nest(t *testing.T, root string, depth int) {
	t.Helper()
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	for range depth {
		if err == nil {
			err = unix.Mkdirat(fd, "d", 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
		next, openErr := unix.Openat(fd, "d", unix.O_PATH|unix.O_DIRECTORY, 0)
		unix.Close(fd)
		fd, err = next, openErr
	}
	if err == nil {
		defer unix.Close(fd)
		var file int
		if file, err = unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600); err == nil {
			unix.Close(file)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What is too deep for a checkpoint is not removed either.
func TestRestoreLeavesWhatIsTooDeep(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	c := create(t, s)
	nest(t, root, 500)
	done, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{})
	if !errors.Is(err, checkpoint.ErrIncomplete) || len(done.Kept) == 0 {
		t.Errorf("restoring: %d paths kept, %v", len(done.Kept), err)
	}
	if _, err := os.Lstat(filepath.Join(root, strings.Repeat("d/", 500), "file")); err != nil {
		t.Errorf("it is lost: %v", err)
	}
}

// A file may have names outside of the tree. A restore changes the tree alone.
func TestRestoreChangesNoFileOutsideByAHardLink(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	outside := filepath.Join(filepath.Dir(root), "outside")
	inside := filepath.Join(root, "in")
	if err := errors.Join(os.WriteFile(outside, []byte("1"), 0o644), os.Link(outside, inside), os.Link(outside, filepath.Join(root, "in2"))); err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	if err := os.Chmod(outside, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	var out, in, in2 unix.Stat_t
	if err := errors.Join(unix.Lstat(outside, &out), unix.Lstat(inside, &in), unix.Lstat(filepath.Join(root, "in2"), &in2)); err != nil {
		t.Fatal(err)
	}
	if out.Mode&0o777 != 0o600 || in.Mode&0o777 != 0o644 || in.Ino == out.Ino || in2.Ino != in.Ino {
		t.Errorf("outside it has %o, inside %o; inodes %d, %d, %d", out.Mode, in.Mode, out.Ino, in.Ino, in2.Ino)
	}
}

// Layers of a file system may use the same inode numbers for different files.
func TestFilesOfSeveralDevicesAreToldApart(t *testing.T) {
	dir := t.TempDir()
	want := map[string]string{}
	for _, layer := range []string{"one", "two"} {
		at := filepath.Join(dir, layer)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		mount(t, "tmpfs", at, "tmpfs", "")
		writeFiles(t, at, map[string]string{layer: layer})
		if err := os.Link(filepath.Join(at, layer), filepath.Join(at, layer+"-again")); err != nil {
			t.Fatal(err)
		}
		want[layer], want[layer+"-again"] = layer, layer
	}
	root := filepath.Join(dir, "tree")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	mount(t, "overlay", root, "overlay", "xino=off,lowerdir="+dir+"/one:"+dir+"/two")
	s, err := checkpoint.Open(filepath.Join(dir, "store"), root, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	again := create(t, s) // by the index
	if err := unix.Unmount(root, 0); err != nil {
		t.Fatal(err)
	}
	for _, id := range []checkpoint.ID{c.ID, again.ID} {
		if _, err := s.Restore(t.Context(), id, checkpoint.RestoreOptions{}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, readFiles(t, root)); diff != "" {
			t.Error(diff)
		}
		if err := os.RemoveAll(root); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func mount(t *testing.T, source, target, fstype, options string) {
	t.Helper()
	if err := unix.Mount(source, target, fstype, 0, options); err != nil {
		t.Fatalf("cannot mount %s, for which this test needs root: %v", fstype, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, 0); err != nil && !errors.Is(err, unix.EINVAL) { // it is unmounted
			t.Error(err)
		}
	})
}

// A directory of the store that was swapped for a link leads nothing elsewhere.
func TestLinksInTheStoreLeadNowhere(t *testing.T) {
	for _, name := range []string{"objects", "packs", "unverified", "manifests", "tmp"} {
		t.Run(name, func(t *testing.T) {
			root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{Max: 1})
			c := create(t, s)
			elsewhere := t.TempDir()
			writeFiles(t, elsewhere, map[string]string{"precious": "1", "0000000000000001": "1"})
			at := filepath.Join(filepath.Dir(root), "store", name)
			if err := errors.Join(os.Rename(at, at+"-aside"), os.Symlink(elsewhere, at)); err != nil {
				t.Fatal(err)
			}
			writeFiles(t, root, map[string]string{"x": "2"})
			if _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("creating one: %v", err)
			}
			if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("restoring: %v", err)
			}
			if err := s.Remove(t.Context(), c.ID); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("removing: %v", err)
			}
			if diff := cmp.Diff(map[string]string{"precious": "1", "0000000000000001": "1"}, readFiles(t, elsewhere)); diff != "" {
				t.Error(diff)
			}
			// What is missing is made again.
			if err := os.Remove(at); err != nil {
				t.Fatal(err)
			}
			create(t, s)
		})
	}
}

// A command swaps directories for links, and files for names of others, while a restore runs: nothing elsewhere changes.
func TestSwapsDuringARestoreLeadNowhere(t *testing.T) {
	one, other := map[string]string{"keep": "1"}, map[string]string{"keep": "1"}
	for n := range 100 {
		one[fmt.Sprintf("d/%d", n)], other[fmt.Sprintf("d/%d", n)] = "one", "other"
	}
	root, s := newTree(t, one, checkpoint.Options{})
	ids := []checkpoint.ID{create(t, s).ID}
	writeFiles(t, root, other)
	for n := range 50 { // these differ by their modes alone
		if err := errors.Join(os.WriteFile(filepath.Join(root, "d", fmt.Sprint(n)), []byte("one"), 0), os.Chmod(filepath.Join(root, "d", fmt.Sprint(n)), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	ids = append(ids, create(t, s).ID)
	elsewhere := filepath.Join(filepath.Dir(root), "elsewhere")
	writeFiles(t, elsewhere, map[string]string{"0": "precious", "99": "precious", "d/0": "precious"})
	want := look(t, elsewhere)
	ctx, stop := context.WithCancel(t.Context())
	var swapper sync.WaitGroup
	swapper.Go(func() {
		d, aside := filepath.Join(root, "d"), filepath.Join(root, "aside")
		for n := 0; ctx.Err() == nil; n++ {
			if os.Rename(d, aside) == nil {
				_ = os.Symlink(elsewhere, d)
				_ = os.Remove(d)
				_ = os.Rename(aside, d)
			}
			file := filepath.Join(d, fmt.Sprint(n%100))
			if os.Remove(file) == nil {
				_ = os.Link(filepath.Join(elsewhere, "0"), file)
			}
		}
	})
	for n := range 20 {
		if _, err := s.Restore(t.Context(), ids[n%2], checkpoint.RestoreOptions{}); err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
			t.Error(err)
		}
	}
	stop()
	swapper.Wait()
	if diff := cmp.Diff(want, look(t, elsewhere)); diff != "" {
		t.Error(diff)
	}
	for range 2 { // the first may have to leave what the swapper left
		if _, err := s.Restore(t.Context(), ids[0], checkpoint.RestoreOptions{}); err != nil && !errors.Is(err, checkpoint.ErrIncomplete) {
			t.Fatal(err)
		}
	}
	now := readFiles(t, root)
	for path, text := range one {
		if now[path] != text {
			t.Errorf("%s has %q afterwards", path, now[path])
		}
	}
}

// look describes the files below a directory, but for how many names they have.
func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for path, text := range readFiles(t, dir) {
		info, err := os.Lstat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		files[path] = fmt.Sprint(text, info.Mode(), info.ModTime())
	}
	return files
}

// A store that commands have removed is made again: what it had is gone, and said to be.
func TestStoreThatIsRemovedIsMadeAgain(t *testing.T) {
	root, s := newTree(t, map[string]string{"x": "1"}, checkpoint.Options{})
	store := filepath.Join(filepath.Dir(root), "store")
	gone := create(t, s)
	if err := os.RemoveAll(store); err != nil {
		t.Fatal(err)
	}
	c := create(t, s)
	writeFiles(t, root, map[string]string{"x": "2"})
	if _, err := s.Restore(t.Context(), gone.ID, checkpoint.RestoreOptions{}); gone.ID != c.ID && !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("restoring one of before: %v", err)
	}
	if _, err := s.Restore(t.Context(), c.ID, checkpoint.RestoreOptions{}); err != nil || readFiles(t, root)["x"] != "1" {
		t.Errorf("restoring: %v", err)
	}
	// A store that has no path is of its descriptor.
	fd, err := unix.Open(store, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	s, err = checkpoint.Open(fmt.Sprintf("/proc/self/fd/%d", fd), root, checkpoint.Options{})
	if err == nil {
		_, err = s.Create(t.Context(), checkpoint.CreateOptions{})
	}
	if err = errors.Join(err, os.RemoveAll(store)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), checkpoint.CreateOptions{}); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("without a directory: %v", err)
	}
}
