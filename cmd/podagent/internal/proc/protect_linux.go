package proc

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// protect makes the agent outlive the processes that it starts from now on, and
// adopt their orphans. It must be the program's only manager, and nothing else may
// start processes.
func (m *Manager) protect() {
	m.proc.adopts = true
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			m.proc.adopts = false
			m.log.Warn("cannot take over orphans", "error", err)
		}
	}
	reserveThreads(threadReserve(m.cgroup.ProcessMax))
	m.guard.watch()
}

// expose makes the kernel kill a process and its descendants before the agent when memory
// runs out. In the some 100 µs before this call the process has the agent's score, and a
// descendant that it starts then keeps that.
//
// An agent that is not root may do this only at the very end of an exec, so it tries again.
func (m *Manager) expose(c *child) {
	if m.oomScore == "" {
		return
	}
	var err error
	for range exposeTries {
		if err = procfs.SetOOMScoreAdj(c.pid, m.oomScore); !errors.Is(err, unix.EACCES) || c.exited(unix.WNOHANG) {
			break
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: exposePause.Nanoseconds()}, nil) // the runtime's pauses last a millisecond
	}
	if err != nil && !errors.Is(err, unix.EACCES) {
		m.log.Warn("cannot raise a process's oom_score_adj", "pid", c.pid, "error", err)
	}
}

// childScore is the oom_score_adj of children: childOOMScore above the agent's own. It
// is empty if the agent's is unknown or the maximum.
func (t *processTable) childScore() string {
	own, err := t.OOMScoreAdj()
	if err != nil || own >= maxOOMScore {
		return ""
	}
	return strconv.Itoa(min(own+childOOMScore, maxOOMScore))
}
