package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// protect makes the agent outlive the processes that it starts from now on, and
// adopt their orphans. It must be the program's only manager, and nothing else may
// start processes.
func (m *Manager) protect() {
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			m.log.Warn("cannot take over orphans", "error", err)
		}
	}
	reserveThreads(threadReserve(m.cgroup.ProcessMax))
	m.guard.watch()
}

// expose makes the kernel kill a process and its descendants before the agent when memory
// runs out. For some 100 µs before this call the process ranks with the agent, and a
// descendant that it starts in that time does so for good.
func (m *Manager) expose(pid int) {
	if m.oomScore == "" {
		return
	}
	fd, err := unix.Open(procPath(pid, "oom_score_adj"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // it has ended
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(m.oomScore)); err != nil {
		m.log.Warn("cannot raise a process's oom_score_adj", "pid", pid, "error", err)
	}
}

// childScore is the oom_score_adj of children: childOOMScore above the agent's own. It
// is empty where the agent's is not known or is the maximum.
func childScore() string {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return ""
	}
	own, err := strconv.Atoi(string(bytes.TrimSpace(b)))
	if err != nil || own >= maxOOMScore {
		return ""
	}
	return strconv.Itoa(min(own+childOOMScore, maxOOMScore))
}
