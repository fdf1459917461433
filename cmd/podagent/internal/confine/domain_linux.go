package confine

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enterDomain puts the calling thread into a new Landlock domain that restricts scopes, which
// kernels before 6.12 do not have, and what TCP may connect to, as far as the parts say. A
// domain that restricted files would forbid mounts, too.
//
// Any domain keeps its processes from tracing, and from reading the memory and the
// environment, of those outside. The thread itself is inside, and its memory is the
// agent's. The agent protects that by not being dumpable.
func (b boundary) enterDomain() error {
	var attr unix.LandlockRulesetAttr
	if b.parts&Domain != 0 {
		attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if b.parts&Signals != 0 {
		attr.Scoped |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if b.parts&Network != 0 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	// Kernels refuse a structure with fields that they do not know, unless they are zero.
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return os.NewSyscallError("landlock_create_ruleset", errno)
	}
	defer unix.Close(int(fd))
	if b.parts&Network != 0 {
		if err := b.fence.addPorts(fd); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return os.NewSyscallError("landlock_restrict_self", errno)
	}
	return nil
}
