package isolate

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// dropRights gives up all capabilities of the program that the calling thread runs next, for good, also
// where that is root's.
func dropRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	for right := uintptr(0); ; right++ {
		bounded, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, right, 0, 0, 0)
		if err != nil {
			break // there are no more
		}
		if bounded != 1 {
			continue
		}
		// Without CAP_SETPCAP the kernel refuses this, also to root. No program gains a capability then all the
		// same, as no_new_privs lets none have one that this program lacks. The next stage checks that it has none.
		err = unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EPERM) {
			return fmt.Errorf("giving up capability %d: %w", right, os.NewSyscallError("prctl", err))
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return os.NewSyscallError("capset", unix.Capset(&header, &none[0]))
}

// become runs the program again in this one's place, in the stage that the state has. It returns only if
// that fails.
func (s *State) become() error {
	env, err := s.environ()
	if err != nil {
		return err
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range", err)
	}
	inherited := s.Sockets
	if s.Store != 0 {
		inherited = append(slices.Clone(inherited), s.Store)
	}
	for _, fd := range inherited {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
	}
	err = syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", s.Program), os.Args, append(os.Environ(), env))
	return &os.PathError{Op: "execve", Path: os.Args[0], Err: err} // of its mode, perhaps, and so no refusal of the level
}

// dieWithParent has the kernel kill the program in namespaces, and with it all that is in them, when the first
// program ends, which passes connections and signals on to it.
func (s *State) dieWithParent() error {
	if s.Level == isolation.Namespaces {
		return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
	}
	return nil
}
