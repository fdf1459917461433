package launcher

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/launcher/internal/limitgroup"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// What only another sandbox can have shows that a process is not this one's, whatever the process says.
func TestMarkersOfOtherSandboxesCountForNothing(t *testing.T) {
	if !isUnlimited() {
		t.Fatal("in a sandbox there is nothing but markers")
	}
	p := place{dir: filepath.Join(t.TempDir(), "mine"), record: record{Isolation: isolationRecord{Mode: isolation.Mode(isolation.Landlock)}, Traces: traces{Lineage: 1}}}
	check := func(name string, attr syscall.SysProcAttr, want kinship) {
		pid := marked(t, p, attr)
		if got := newFamily(p).kin(pid); pid > 0 && got != want {
			t.Errorf("%s: its kinship is %d, want %d", name, got, want)
		}
	}
	check("where it may be", syscall.SysProcAttr{}, doubtful)
	check("in a namespace", syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
	}, stranger)
	p.Isolation.Mode = isolation.Mode(isolation.Namespaces)
	check("the first in a namespace, without podagent outside", syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
	}, doubtful)
	p.Isolation.Mode = isolation.Mode(isolation.Landlock)
	group, err := limitgroup.Make(strings.ToLower(t.Name()), limitgroup.Limits{})
	if err != nil {
		return // this machine lets nobody make groups
	}
	t.Cleanup(func() {
		if err := limitgroup.End(context.Background(), group.Path); err != nil {
			t.Error(err)
		}
	})
	dir, err := group.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	inGroup := syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	check("in a group that nobody has", inGroup, doubtful)
	other := place{dir: filepath.Join(filepath.Dir(p.dir), "other"), record: record{Traces: traces{Group: group.Path}}}
	if err := errors.Join(os.Mkdir(other.dir, 0o700), other.write(t.Context())); err != nil {
		t.Fatal(err)
	}
	check("in the group of another", inGroup, stranger)
}

// marked starts a process with a sandbox's marker. It returns 0 where the machine refuses that.
func marked(t *testing.T, p place, attr syscall.SysProcAttr) (pid int) {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.Env, cmd.SysProcAttr = []string{p.marker()}, &attr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Logf("starting it: %v", err)
		return 0
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	// Start returns before the kernel has put the environment in its place.
	_, inErr = in.Write([]byte("\n"))
	_, outErr = out.Read(make([]byte, 1))
	if err := errors.Join(inErr, outErr); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
