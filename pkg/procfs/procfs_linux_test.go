package procfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
	"github.com/podagent/podagent/pkg/procfs/procfstest"
)

// sleeper starts a process with an environment. It runs until the test ends.
func sleeper(t *testing.T, env ...string) int {
	t.Helper()
	cmd := exec.Command("cat")
	cmd.Env = env
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr, cmd.Start()); err != nil {
		t.Fatal(err)
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

func TestProcessIsListedWithItsState(t *testing.T) {
	var fs procfs.FS
	pid := sleeper(t)
	pids, err := fs.PIDs()
	if err != nil || !slices.Contains(pids, pid) || !slices.Contains(pids, os.Getpid()) {
		t.Errorf("PIDs are %v, %v, without %d or %d", pids, err, pid, os.Getpid())
	}
	s, err := fs.Stat(pid)
	if err != nil || s.Parent != os.Getpid() || s.Group != unix.Getpgrp() || s.Start == 0 || !strings.ContainsRune("RSD", rune(s.State)) {
		t.Errorf("%+v, %v", s, err)
	}
	if size, err := fs.Unreclaimable(os.Getpid()); err != nil || size < 64<<10 {
		t.Errorf("the test has %d bytes, %v", size, err)
	}
	if _, err := fs.OOMScoreAdj(); err != nil {
		t.Error(err)
	}
}

// A process decides on its name, which may look like the fields that follow it.
func TestStatOfAProcessWithAnOddName(t *testing.T) {
	var fs procfs.FS
	script := `printf '%s' 'a) Z 1 2 (' > /proc/$$/comm && read x`
	cmd := exec.Command("sh", "-c", script)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stdin.Close()
		_ = cmd.Wait()
	}()
	for renamed := false; !renamed; {
		s, err := fs.Stat(cmd.Process.Pid)
		if err != nil || s.Parent != os.Getpid() || s.State == 'Z' {
			t.Fatalf("%+v, %v", s, err)
		}
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		renamed = bytes.HasPrefix(comm, []byte("a) Z"))
	}
}

func TestGetenvFindsVariablesNearTheBeginning(t *testing.T) {
	var fs procfs.FS
	long := strings.Repeat("x", 100<<10)
	for _, test := range []struct {
		env  []string
		want string
	}{
		{[]string{"M=1"}, "1"},
		{[]string{"MM=2", "XM=3", "M=1=2"}, "1=2"},
		{[]string{"A=" + long[:60<<10], "M=1"}, "1"},
		{[]string{"M=1", "A=" + long}, "1"},
		{[]string{"M="}, ""},
		{[]string{"A=M=1"}, ""},
		{nil, ""},
		// What is cut at the end of the read would be another value.
		{[]string{"A=" + long[:64<<10-10], "M=12345678"}, ""},
	} {
		got, err := fs.Getenv(sleeper(t, append(test.env, "PATH=/bin")...), "M")
		if err != nil || got != test.want {
			t.Errorf("%.20q: got %q, %v; want %q", test.env, got, err, test.want)
		}
	}
}

func TestLongEnvironmentCostsNothing(t *testing.T) {
	procfstest.ClaimEnviron(t, 64<<30)
	var fs procfs.FS
	pids, err := fs.PIDs()
	if err != nil {
		t.Fatal(err)
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { // others may run beside this test, with environments that cost something
		s, err := fs.Stat(pid)
		return err != nil || s.Parent != os.Getpid()
	})
	if len(pids) == 0 {
		t.Fatal("the process with the long environment is not listed")
	}
	if n := procfstest.Allocated(func() {
		for _, pid := range pids {
			_, _ = fs.Getenv(pid, "M")
		}
	}); n > 1<<20 {
		t.Errorf("the environments of %d processes took %d KiB", len(pids), n>>10)
	}
}

func TestReserveServesAProgramWithoutDescriptors(t *testing.T) {
	var with, without procfs.FS
	with.Reserve()
	defer with.Close()
	pid := sleeper(t, "M=1")
	release := takeDescriptors(t)
	pids, listErr := with.PIDs()
	value, err := with.Getenv(pid, "M")
	_, noSpare := without.Stat(pid)
	release()
	if listErr != nil || len(pids) < 2 || err != nil || value != "1" {
		t.Errorf("with a reserve: %d processes, %v; %q, %v", len(pids), listErr, value, err)
	}
	if !procfs.Starved(noSpare) {
		t.Errorf("without a reserve: %v", noSpare)
	}
}

func TestGoneProcessIsNotStarved(t *testing.T) {
	var fs procfs.FS
	if _, err := fs.Stat(1 << 30); !errors.Is(err, unix.ENOENT) || procfs.Starved(err) {
		t.Errorf("got %v", err)
	}
	if err := procfs.SetOOMScoreAdj(1<<30, "0"); err != nil {
		t.Errorf("got %v", err)
	}
}

// takeDescriptors uses up the descriptors of the test's process until release is
// called.
func takeDescriptors(t *testing.T) (release func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// The limit is one above the highest number: a free one below is taken here.
	highest, err := unix.Open(os.DevNull, unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	few := old
	few.Cur = uint64(highest) + 1
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	return func() {
		unix.Close(highest)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}
}

// A process in namespaces of its own is seen from outside, and in the control group that this process is in.
func TestNamespaceAndControlGroupOfAProcess(t *testing.T) {
	var fs procfs.FS
	own, err := fs.ControlGroup(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if below, _, err := fs.InNamespaceBelow(os.Getpid()); err != nil || below {
		t.Errorf("this process is below: %v, %v", below, err)
	}
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); errors.Is(err, unix.EPERM) {
		t.Fatal("this machine lets nobody make namespaces")
	} else if err != nil {
		t.Fatal(err)
	}
	if below, first, err := fs.InNamespaceBelow(cmd.Process.Pid); err != nil || !below || !first {
		t.Errorf("it is below: %v, %v", below, err)
	}
	if group, err := fs.ControlGroup(cmd.Process.Pid); err != nil || group != own {
		t.Errorf("its group is %q, %v, want %q", group, err, own)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Error(err)
	}
}
