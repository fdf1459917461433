package proc

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// protect makes the agent outlive what it runs, and have its orphans: from the
// first process on. It must be the program's only manager, and the only one to
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

// expose makes a process, and what it starts, the kernel's choice before the
// agent when memory runs out. In the time before, some 100 µs, it is chosen
// as the agent would be; what it starts in that time remains so.
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

// childScore is the oom_score_adj of children: the agent's own and a half of
// the memory that there is more, so that the largest agent comes after the
// smallest child. It is empty where that can't be known, or be more.
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
