package main

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An agent that must confine commands serves nobody where the kernel cannot do that.
func TestServeEndsWithoutTheConfinementThatIsRequired(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Args = []string{"podagent", "serve", "--insecure", "--confine", "domain", "--listen", "unix:" + t.TempDir() + "/s"}
	var out []byte
	over, err := make(chan struct{}), error(nil)
	go func() {
		defer close(over)
		runtime.LockOSThread() // the thread ends with this function, and its filter, too
		if err = lackLandlock(); err == nil {
			out, err = cmd.CombinedOutput()
		}
	}()
	<-over
	if _, ok := errors.AsType[*exec.ExitError](err); !ok || !strings.Contains(string(out), "cannot confine commands by landlock-domain") {
		t.Errorf("%v: %s", err, out)
	}
}

// lackLandlock makes this thread, and what it starts, find a kernel without Landlock.
func lackLandlock() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_LANDLOCK_CREATE_RULESET},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(program))); errno != 0 {
		return errno
	}
	return nil
}
