package walk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/fsops/internal/ignore"
)

// openFiles returns the number of this process's descriptors.
func openFiles(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestTreeClosesAllDescriptorsAndEndsAllGoroutines(t *testing.T) {
	var files []string
	for i := range 3000 {
		files = append(files, fmt.Sprintf("%d/%d/%d", i%3, i%100, i))
	}
	root := newTree(t, files...)
	before, goroutines := openFiles(t), runtime.NumGoroutine()
	for stopAt := int64(1); stopAt < 6000; stopAt *= 2 {
		ctx, cancel := context.WithCancel(t.Context())
		var visits atomic.Int64
		_ = Tree(ctx, root, Options{Workers: 4}, func(int, *Entry) error {
			switch n := visits.Add(1); {
			case n == stopAt && n%3 == 0:
				cancel()
			case n == stopAt:
				return errors.New("enough")
			}
			return nil
		})
		cancel()
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
	// The goroutine of a context's end may still be running.
	for begun := time.Now(); runtime.NumGoroutine() > goroutines; time.Sleep(time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatalf("%d goroutines, %d were before", runtime.NumGoroutine(), goroutines)
		}
	}
}

// newDeepTree makes nested directories of that name. Each has a second subdirectory
// called "side" with a file. It returns the path of the outermost.
func newDeepTree(t *testing.T, name string, depth int) string {
	t.Helper()
	root := t.TempDir()
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(dir, name, 0o777))
		must(t, unix.Mkdirat(dir, "side", 0o777))
		must(t, unix.Mknodat(dir, "side/file", unix.S_IFREG|0o666, 0))
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(dir))
		dir = next
	}
	fd, err := unix.Openat(dir, ".ignore", unix.O_WRONLY|unix.O_CREAT, 0o666)
	must(t, err)
	_, err = unix.Write(fd, []byte("ignored\n"))
	must(t, err)
	must(t, errors.Join(unix.Close(fd), unix.Mknodat(dir, "ignored", unix.S_IFREG|0o666, 0), unix.Close(dir)))
	return root
}

func TestTreeDeeperThanAnyPathWithFewDescriptors(t *testing.T) {
	const depth = 1500
	name := strings.Repeat("n", 100)
	root := newDeepTree(t, name, depth)
	rules, err := ignore.Open(root, root)
	must(t, err)
	before := openFiles(t)
	var dirs, files, most atomic.Int64
	must(t, Tree(t.Context(), root, Options{Workers: 3, Ignore: rules}, func(_ int, e *Entry) error {
		switch {
		case e.Name == name:
			if n := dirs.Add(1); n%50 == 0 {
				most.Store(max(most.Load(), int64(openFiles(t))))
			}
		case e.Name == "file":
			files.Add(1)
			file, err := e.OpenFile()
			if err != nil {
				return err
			}
			return file.Close()
		case e.Name == "ignored":
			return errors.New("the rules of the deepest directory were not read")
		}
		return e.Err
	}))
	if dirs.Load() != depth || files.Load() != depth {
		t.Errorf("%d directories and %d files visited, want %d of each", dirs.Load(), files.Load(), depth)
	}
	if n := int(most.Load()) - before; n > maxOpenDirs+16 {
		t.Errorf("%d descriptors open at a time, want some %d", n, maxOpenDirs)
	}
}

func TestOpenFileOpensNothingSpecial(t *testing.T) {
	root := newTree(t, "file", "link -> file")
	must(t, syscall.Mkfifo(root+"/fifo", 0o666))
	visits := 0
	must(t, Tree(t.Context(), root, Options{}, func(_ int, e *Entry) error {
		visits++
		file, err := e.OpenFile()
		switch e.Name {
		case "fifo":
			if !errors.Is(err, ErrNotRegular) || e.Type != fs.ModeNamedPipe {
				t.Errorf("FIFO: error is %v, type %v", err, e.Type)
			}
		case "link":
			if !errors.Is(err, syscall.ELOOP) {
				t.Errorf("symbolic link: error is %v", err)
			}
		default:
			return errors.Join(err, file.Close())
		}
		return nil
	}))
	if visits != 3 {
		t.Errorf("%d visits", visits)
	}
}

// asNobody is the variable with the directory that a child process of this test
// must walk.
const asNobody = "WALK_TEST_AS_NOBODY"

func TestTreeReportsWhatCannotBeReadAndGoesOn(t *testing.T) {
	if root := os.Getenv(asNobody); root != "" {
		walkUnreadable(t, root)
		return
	}
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, to start a process of another user")
	}
	dir, err := os.MkdirTemp("", "walk") // other users may not enter t.TempDir
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	for _, sub := range []string{"a", "closed", "z"} {
		must(t, os.MkdirAll(filepath.Join(dir, "root", sub, "in"), 0o755))
	}
	must(t, os.Chmod(filepath.Join(dir, "root/closed"), 0o700))
	self, err := os.Executable()
	must(t, err)
	binary, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "test"), binary, 0o755))
	cmd := exec.Command(filepath.Join(dir, "test"), "-test.run=^"+t.Name()+"$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), asNobody+"="+filepath.Join(dir, "root"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as another user: %v\n%s", err, out)
	}
}

func walkUnreadable(t *testing.T, root string) {
	got := walkAll(t, root, Options{Workers: 2})
	if paths := strings.Join(got.paths(), " "); paths != "a a/in closed z z/in" {
		t.Errorf("visited %s", paths)
	}
	if err := got.errs["closed"]; !errors.Is(err, fs.ErrPermission) || len(got.errs) != 1 {
		t.Errorf("errors are %v, want one for the closed directory", got.errs)
	}
}
