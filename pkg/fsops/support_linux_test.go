package fsops

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// mountTmpfs mounts a tmpfs at an empty directory in f.
func mountTmpfs(t *testing.T, f *FS, name, options string) {
	t.Helper()
	must(t, os.Mkdir(at(f, name), 0o755))
	mount(t, "tmpfs", at(f, name), "tmpfs", 0, options)
}

func mount(t *testing.T, source, target, kind string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, options); err != nil {
		t.Fatalf("cannot mount %s, for which this test needs root and CAP_SYS_ADMIN: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(target, 0); err != nil {
			t.Errorf("cannot unmount %s: %v", target, err)
		}
	})
}

// unprivilegedDir is the variable that tells a child process of this test binary
// where its parent prepared files.
const unprivilegedDir = "FSOPS_TEST_UNPRIVILEGED_DIR"

const nobody = 65534

// asNobody runs the calling test again in a process without privileges, on a
// directory that prepare filled as root. In the child it returns an FS on that
// directory; in the parent it returns nil once the child has ended.
func asNobody(t *testing.T, prepare func(f *FS)) *FS {
	t.Helper()
	if dir := os.Getenv(unprivilegedDir); dir != "" {
		return New(dir)
	}
	if os.Getuid() != 0 {
		t.Fatal("this test needs root, to prepare files of other owners")
	}
	// Other users may not enter t.TempDir.
	dir, err := os.MkdirTemp("", "fsops")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	work := filepath.Join(dir, "work")
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Mkdir(work, 0o755))
	prepare(New(work))
	cmd := exec.Command(copyOfThisBinary(t, dir), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), unprivilegedDir+"="+work)
	cmd.Dir = work
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("without privileges: %v\n%s", err, out)
	}
	return nil
}

// copyOfThisBinary copies the test binary to where every user may run it.
func copyOfThisBinary(t *testing.T, dir string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	from, err := os.Open(self)
	must(t, err)
	defer from.Close()
	path := filepath.Join(dir, "test")
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	must(t, err)
	_, err = io.Copy(to, from)
	must(t, err)
	must(t, to.Close())
	return path
}
