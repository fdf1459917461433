package confine

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enterDomain puts the calling thread into a new Landlock domain that restricts scopes
// only: kernels before 6.12 have no scopes. A domain that restricted files would forbid
// mounts, too.
//
// Any domain keeps its processes from tracing, and from reading the memory and the
// environment, of those outside. The thread itself is inside, and its memory is the
// agent's. The agent protects that by not being dumpable.
func enterDomain(signals bool) error {
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET}
	if signals {
		attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	// Kernels refuse a structure with fields that they do not know, unless they are zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(fd))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
