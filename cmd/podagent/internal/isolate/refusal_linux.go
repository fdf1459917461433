package isolate

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// refusals are errors that trying again cannot change: a right is missing, or the kernel does not know what it
// is asked for. After any other error, such as of a lack of memory, the next try may succeed. A
// program that took a weaker level then would be isolated less than its machine allows, at the whim of whoever
// else uses that up.
var refusals = []error{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.ENODEV, unix.EUSERS}

// unavailable returns the error of a call that is to begin a level, as [ErrUnavailable] if it is a refusal.
func unavailable(level string, err error) error {
	refusal := refuses(err)
	if err = fmt.Errorf("%s: %w", level, err); refusal {
		return Unavailable(err)
	}
	return err
}

// isRefusal reports whether an error says that the machine refuses the level. Only the system calls that make the
// level can say so ([os.SyscallError]). Errors of paths ([os.PathError]) never do: they are faults of the view, and
// another sandbox may have caused them, such as by chmod of a directory that this one is to read.
func isRefusal(err error) bool {
	call, ok := errors.AsType[*os.SyscallError](err)
	return ok && refuses(call) || errors.Is(err, ErrUnavailable)
}

func refuses(err error) bool {
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) ||
		errors.Is(err, unix.ENOSPC) && noneAllowed()
}

// noneAllowed reports whether the system allows no namespaces at all. The kernel answers the same where
// there are as many as it allows.
func noneAllowed() bool {
	return slices.ContainsFunc([]string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}, func(kind string) bool {
		text, err := os.ReadFile("/proc/sys/user/max_" + kind + "_namespaces")
		return err == nil && string(text) == "0\n"
	})
}

// The stage mounts begins its report with one of these.
const (
	refused = 'r'
	failed  = 'f'
)

// report tells the program outside why the stage mounts has failed.
func (s *State) report(err error) {
	kind := byte(failed)
	if isRefusal(err) {
		kind = refused
	}
	_, _ = unix.Write(s.Report, append([]byte{kind}, Reason(err)...))
}

// reported returns what a report says: nothing, if the program runs isolated.
func reported(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	err := fmt.Errorf("namespaces: %s", text[1:])
	if text[0] == refused {
		err = Unavailable(err)
	}
	return err
}
