package confine

import (
	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/landlock"
)

// enterDomain puts the calling thread into a new Landlock domain that restricts scopes, which
// kernels before 6.12 do not have, and what TCP may connect to, as far as the parts say. A
// domain that restricts files forbids mounts, too.
//
// Any domain keeps its processes from tracing, and from reading the memory and the
// environment, of those outside. The thread itself is inside, and its memory is the
// agent's. The agent protects that by not being dumpable.
func (b boundary) enterDomain() error {
	var rules landlock.Ruleset
	if b.parts&Domain != 0 {
		rules.Scopes |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	}
	if b.parts&Files != 0 {
		rules.Files = b.files
	}
	if b.parts&Signals != 0 {
		rules.Scopes |= unix.LANDLOCK_SCOPE_SIGNAL
	}
	if b.parts&Network != 0 {
		rules.Connects, rules.Ports = true, b.fence.Ports
	}
	return rules.Restrict()
}
