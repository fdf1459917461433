package proc

import (
	"os"

	"golang.org/x/sys/unix"
)

// A tree whose processes fork and end faster than a scan sees them outruns every scan, the
// more so as the agent gets few turns of the processor beside thousands of them. As PID 1
// the agent can stop all of its name space with one system call, find at leisure what must
// end, and let the rest go on. Elsewhere the call would reach processes that are none of
// the agent's, and only scans remain.

// isCrowded reports whether there are so many processes that a scan would take long.
func (t *processTable) isCrowded() bool {
	pids, err := t.PIDs()
	return err == nil && len(pids) >= crowd
}

// freeze stops everything, until thaw. No process is started meanwhile: the runtime would
// wait for a child that is stopped before its exec, with the whole agent.
func (k *killing) freeze() {
	if os.Getpid() != 1 || k.frozen {
		return
	}
	k.tree.table.forking.Lock()
	k.frozen = true
	k.asleep = k.tree.table.asleep(k.stopped)
	if err := ignoreGone(unix.Kill(-1, unix.SIGSTOP)); err != nil {
		k.tree.log.Warn("cannot stop all processes", "error", err)
	}
}

// thaw lets everything go on that ran before freeze.
func (k *killing) thaw() {
	if !k.frozen {
		return
	}
	if err := ignoreGone(unix.Kill(-1, unix.SIGCONT)); err != nil {
		k.tree.log.Error("cannot let all processes go on", "error", err)
	}
	for _, m := range k.asleep {
		_ = k.tree.table.signal(m, unix.SIGSTOP)
	}
	k.frozen = false
	k.tree.table.forking.Unlock()
}

// asleep returns the first processes that are stopped, without those that the caller has
// stopped.
func (t *processTable) asleep(own map[int]uint64) (asleep []member) {
	pids, _ := t.PIDs()
	for _, pid := range pids[:min(len(pids), sleepers)] {
		m, err := t.member(pid)
		if err == nil && m.stopped && own[pid] != m.start {
			asleep = append(asleep, m)
		}
	}
	return asleep
}
