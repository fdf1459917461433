package agent

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A process in no namespace of the agent's has no number there, by which it could be told from a command of a sandbox.
func TestOwnerSocketRefusesWhoHasNoNumber(t *testing.T) {
	const inside = "PODAGENT_TEST_OTHER_NAMESPACE"
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "pair"), os.NewFile(uintptr(fds[1]), "pair")
	defer mine.Close()
	defer theirs.Close()
	if !lets(t, mine) {
		t.Error("a process of its own user and namespace is refused")
	}
	if os.Getenv(inside) != "" { // what it inherited is a connection from outside
		if lets(t, os.NewFile(3, "from outside")) {
			t.Error("a process outside is let in")
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) {
		t.Fatal("this machine lets nobody make namespaces")
	}
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// lets reports whether a connection is let in.
func lets(t *testing.T, f *os.File) bool {
	t.Helper()
	conn, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return isOwner(conn)
}
