package fsops

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// The limit is real: it belongs to a user namespace of the test.
func TestWatchLimitNamesTheSetting(t *testing.T) {
	const inNamespace = "FSOPS_TEST_WATCH_LIMIT"
	if os.Getenv(inNamespace) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inNamespace+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("this test needs a user namespace: %v\n%s", err, out)
		}
		return
	}
	must(t, os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("5"), 0))
	f := newTestFS(t)
	makeTree(t, f, "dir/a/", "dir/b/")
	w := watchFor(t, f, "dir", WatchOptions{Recursive: true})
	makeTree(t, f, "dir/c/d/e/")
	wantWatchLimit(t, w.wantEnd(syscall.ENOSPC))
	for _, err := range f.Watch(t.Context(), "dir", WatchOptions{Recursive: true}) {
		wantWatchLimit(t, err)
	}
}

func wantWatchLimit(t *testing.T, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "fs.inotify.max_user_watches") {
		t.Errorf("the error is %v, want one that names the setting", err)
	}
}
