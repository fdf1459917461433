package isolate

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/internal/userns"
)

// notStarted says why the program was not started in namespaces. "Permission denied" may be the machine's refusal
// of namespaces, but also come from the file of the program: another sandbox may have changed its mode, which must not
// get this one a weaker level.
func notStarted(attr *syscall.SysProcAttr, program *os.File, err error) error {
	if errors.Is(err, unix.EACCES) {
		switch hidden, own := isHidden(), isOwn(program); {
		case hidden && own:
			return fmt.Errorf("namespaces: %w: the program is yours, but you could not read it when it began: run \"chmod u+r\" on it", err)
		case !hidden && starts(attr):
			return fmt.Errorf("namespaces: starting the program: %w", err)
		}
	}
	for _, obstacle := range userns.Obstacles() {
		err = fmt.Errorf("%w: %s", err, obstacle.Reason)
	}
	return unavailable("namespaces", err)
}

// isHidden reports whether the kernel keeps this process from its own user, as it does with programs that their users
// cannot read. Such a process cannot say who is who in a new user namespace.
func isHidden() bool {
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err == nil && dumpable != 1
}

// isOwn reports whether a file is this user's, who may change its mode then.
func isOwn(file *os.File) bool {
	var info unix.Stat_t
	return unix.Fstat(int(file.Fd()), &info) == nil && int(info.Uid) == os.Geteuid()
}

// starts reports whether a process starts in namespaces, up to the point at which it would run a program: it has
// none to run.
func starts(attr *syscall.SysProcAttr) bool {
	p, err := os.StartProcess("", []string{""}, &os.ProcAttr{Sys: attr})
	if err == nil {
		_ = p.Release()
	}
	return errors.Is(err, unix.ENOENT)
}
