package procfs_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// ownDir asks whether a directory is that of this process.
func ownDir(t *testing.T, path string) bool {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	own, err := procfs.OwnDir(fd)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return own
}

func TestOwnDirIsKnownByAnyPath(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	self := strconv.Itoa(os.Getpid())
	for path, want := range map[string]bool{
		"/proc/self":                           true,
		"/proc/thread-self":                    true,
		"/proc/" + self:                        true,
		"/proc/" + strconv.Itoa(unix.Gettid()): true,
		"/proc/self/task/" + self:              true,
		"/proc/self/fd":                        false, // in it
		"/proc":                                false,
		"/proc/sys":                            false,
		"/":                                    false,
		fmt.Sprint("/proc/", sleeper(t)):       false,
		fmt.Sprint("/proc/", os.Getppid()):     false,
	} {
		if got := ownDir(t, path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

func TestUmaskIsThatOfThisProcess(t *testing.T) {
	before := syscall.Umask(0o027)
	t.Cleanup(func() { syscall.Umask(before) })
	if mask, ok := procfs.Umask(); mask != 0o027 || !ok {
		t.Errorf("it is %04o (%v), want 0027", mask, ok)
	}
}

// In a namespace of its own a process has the id 1, as another process has in the
// namespace that /proc shows.
func TestOwnDirInAnotherNamespace(t *testing.T) {
	if os.Getpid() == 1 {
		if !ownDir(t, "/proc/self") || !ownDir(t, "/proc/thread-self") || ownDir(t, "/proc/1") {
			t.Error("the process does not know which directory is its own")
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v (this test needs root)\n%s", err, out)
	}
}
