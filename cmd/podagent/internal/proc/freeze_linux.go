package proc

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
)

// A tree whose processes fork and end faster than a scan sees them outruns every scan, the
// more so as the agent gets few turns of the processor beside thousands of them. So the
// agent stops everything with one system call, finds at leisure what must end, and lets
// the rest go on. It does so from the confined thread, whose signals reach commands only,
// if the kernel scopes them. If not, it stops all of its name space as PID 1, and elsewhere
// only scans remain.

// isCrowded reports whether there are so many processes that a scan would take long. It
// does not count those of others.
func (t *processTable) isCrowded() bool {
	if os.Getpid() != 1 {
		return false
	}
	pids, err := t.PIDs()
	return err == nil && len(pids) >= crowd
}

// signalAll sends sig to all processes that freeze stops.
func (t *processTable) signalAll(sig unix.Signal) (err error) {
	if t.thread.Has(confine.Signals) {
		t.thread.Do(func() { err = unix.Kill(-1, sig) })
	} else {
		err = unix.Kill(-1, sig)
	}
	return ignoreGone(err)
}

// freeze stops everything, until thaw. No process is started meanwhile: it would be
// stopped before its exec, and count as held.
func (k *killing) freeze() {
	if k.frozen || os.Getpid() != 1 && !k.tree.table.thread.Has(confine.Signals) {
		return
	}
	k.tree.table.forking.Lock()
	k.frozen = true
	k.asleep = k.tree.table.asleep(k.stopped)
	if err := k.tree.table.signalAll(unix.SIGSTOP); err != nil {
		k.tree.log.Warn("cannot stop all processes", "error", err)
	}
}

// thaw lets everything go on that ran before freeze.
func (k *killing) thaw() {
	if !k.frozen {
		return
	}
	if err := k.tree.table.signalAll(unix.SIGCONT); err != nil {
		k.tree.log.Error("cannot let all processes go on", "error", err)
	}
	for _, m := range k.asleep {
		_ = k.tree.table.signal(m, unix.SIGSTOP)
	}
	k.frozen = false
	k.tree.table.forking.Unlock()
}

// asleep returns those of the first processes (sleepers) that are stopped, without those
// that the caller has stopped, and those of others.
func (t *processTable) asleep(own map[int]uint64) (asleep []member) {
	pids, _ := t.PIDs()
	if os.Getpid() != 1 {
		pids = slices.DeleteFunc(pids, func(pid int) bool { return !t.isMarked(pid) })
	}
	for _, pid := range pids[:min(len(pids), sleepers)] {
		m, err := t.member(pid)
		if err == nil && m.stopped && own[pid] != m.start {
			asleep = append(asleep, m)
		}
	}
	return asleep
}

// isMarked reports whether a process bears a mark of the agent's.
func (t *processTable) isMarked(pid int) bool {
	l, err := t.marks.limitsOf(pid)
	return err == nil && t.marks.read(l) != noLineage
}
