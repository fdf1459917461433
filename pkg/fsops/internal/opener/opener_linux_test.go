package opener

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// withoutOpenat2 makes this package do without the system call until the test ends.
func withoutOpenat2(t *testing.T) {
	t.Helper()
	former := hasOpenat2
	hasOpenat2 = func() bool { return false }
	t.Cleanup(func() { hasOpenat2 = former })
}

// outcome describes what a path leads to, or why it leads nowhere. A file's path tells it
// from others: procfs gives a file that it forgot meanwhile another inode number.
func outcome(path string, flags int) string {
	fd, err := resolve(unix.AT_FDCWD, path, flags)
	if errors.Is(err, errMagic) {
		return "magic"
	}
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	var st unixStat
	if err := fstat(fd, &st); err != nil {
		return err.Error()
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %o", name, st.Mode)
}

// tree makes files and links, and returns their directory.
func tree(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	for _, dir := range []string{"a/b/c", "private"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(top+"/a/file", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	links := map[string]string{
		"rel": "a/b", "abs": top + "/a/file", "up": "a/b/../../a", "loop": "loop", "gone": "absent",
		"chain": "rel/c", "a/b/back": "../..", "slash": "a/", "odd": "a//b///c", "dot": ".",
		"fd": "/proc/self/fd/0", "root": "/proc/self/root", "net": "/proc/net", "cwd": "/proc/thread-self/cwd",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

var paths = []string{
	"", "/", "//", "/.", "/..", "a", "a/", "a/.", "a/..", "a/../a/b", "a//b", "a/file", "a/file/", "a/file/x",
	"absent", "absent/x", "rel", "rel/", "rel/c", "abs", "abs/", "up", "up/file", "loop", "loop/x", "gone", "gone/",
	"chain", "chain/../back", "rel/back/a/file", "slash", "slash/file", "odd", "odd/..", "dot", "dot/dot/a",
	"fd", "root", "root/", "root/etc", "net", "net/dev", "cwd", "cwd/x",
	"/proc/self", "/proc/self/", "/proc/self/status", "/proc/thread-self", "/proc/self/exe", "/proc/self/exe/",
	"/proc/self/cwd", "/proc/self/cwd/", "/proc/self/cwd/..", "/proc/self/fd/0", "/proc/self/ns/pid", "/proc/mounts",
	"/proc/net/dev", "/dev/fd", "/dev/fd/0", "/dev/stdin",
}

var flagSets = map[string]int{
	"path": unix.O_PATH, "no follow": unix.O_PATH | unix.O_NOFOLLOW, "directory": unix.O_RDONLY | unix.O_DIRECTORY,
	"held directory": unix.O_PATH | unix.O_DIRECTORY, "read, no follow": unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK,
}

// Where the system call is missing, paths lead to the same files, and fail with the same
// errors.
func TestLookupWithoutOpenat2IsTheSame(t *testing.T) {
	if !hasOpenat2() {
		t.Fatal("there is no openat2 to compare with")
	}
	// Each thread has a /proc/thread-self of its own.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	t.Chdir(tree(t))
	want := map[string]string{}
	for name, flags := range flagSets {
		for _, path := range paths {
			want[name+path] = outcome(path, flags)
		}
	}
	magic := 0
	withoutOpenat2(t)
	for name, flags := range flagSets {
		for _, path := range paths {
			got := outcome(path, flags)
			if got != want[name+path] {
				t.Errorf("%q, %s: %s, want %s", path, name, got, want[name+path])
			}
			if got == "magic" {
				magic++
			}
		}
	}
	if magic < 40 {
		t.Errorf("only %d lookups met magic links", magic)
	}
}

// eachWay runs a test with openat2 and without it.
func eachWay(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", test)
	t.Run("without openat2", func(t *testing.T) {
		withoutOpenat2(t)
		test(t)
	})
}

func TestOpenRefusesThisProcessAndNoOther(t *testing.T) {
	other := exec.Command("sleep", "300")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		_ = other.Wait()
	}()
	pid := fmt.Sprint(os.Getpid())
	top := tree(t)
	eachWay(t, func(t *testing.T) {
		for path, want := range map[string]error{
			"/proc/self/environ":                    errOwn,
			"/proc/" + pid + "/environ":             errOwn,
			"/proc/thread-self/maps":                errOwn,
			"/proc/self/task/" + pid + "/stat":      errOwn,
			"/proc/self":                            errOwn,
			"/proc/self/fd":                         errOwn,
			"/proc/self/cwd":                        errMagic,
			"/proc/self/root/etc":                   errMagic,
			top + "/root/etc":                       errMagic,
			"/proc/self/mountinfo":                  nil,
			"/proc/mounts":                          nil,
			"/proc/net/dev":                         nil,
			"/proc/net":                             nil,
			"/proc/cpuinfo":                         nil,
			"/proc":                                 nil,
			fmt.Sprint("/proc/", other.Process.Pid): nil,
			fmt.Sprint("/proc/", other.Process.Pid, "/stat"): nil,
			top + "/abs":  nil,
			top + "/loop": syscall.ELOOP,
		} {
			file, _, err := Open(path, os.O_RDONLY|unix.O_NONBLOCK)
			if err == nil {
				file.Close()
			}
			if !errors.Is(err, want) || (want == nil) != (err == nil) {
				t.Errorf("%s: %v, want %v", path, err, want)
			}
		}
	})
}

// A mount shows the files of a process under other paths.
func TestOpenRefusesThisProcessInMounts(t *testing.T) {
	top := tree(t)
	mount := func(source, target, kind string, flags uintptr) {
		t.Helper()
		if err := unix.Mount(source, target, kind, flags, ""); err != nil {
			t.Fatalf("cannot mount %s, for which this test needs root: %v", source, err)
		}
		t.Cleanup(func() { _ = unix.Unmount(target, 0) })
	}
	mount("proc", top+"/a/b/c", "proc", 0)
	mount("/proc/self/", top+"/private", "", unix.MS_BIND)
	mount("/proc/self/environ", top+"/a/file", "", unix.MS_BIND)
	pid := fmt.Sprint(os.Getpid())
	eachWay(t, func(t *testing.T) {
		for _, path := range []string{"/a/b/c/self/environ", "/a/b/c/" + pid + "/environ", "/a/b/c/" + pid, "/private", "/private/environ", "/private/fd", "/a/file"} {
			file, _, err := Open(top+path, os.O_RDONLY)
			if err == nil {
				file.Close()
			}
			if !errors.Is(err, errOwn) {
				t.Errorf("%s: %v", path, err)
			}
		}
		if file, _, err := Open(top+"/a/b/c/cpuinfo", os.O_RDONLY); err != nil {
			t.Error(err)
		} else {
			file.Close()
		}
	})
}
