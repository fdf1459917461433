package proc

import (
	"errors"
	"log/slog"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tree names the processes that belong to one or more execs, wherever they
// went: those in the session or the group of a leader, those with the marker
// in their environment, and the descendants of all these. A descendant escapes
// only if it left the session, lost its parent and cleared its environment.
type tree struct {
	// leaders are the pids of the execs' own processes. They must not have
	// been reaped: after that a session of the same number may be another's.
	leaders map[int]bool
	// ids are the exec ids.
	ids map[string]bool
	// seen are the members of earlier scans by their start: they belong to the
	// tree though the parent that showed it is gone.
	seen map[int]uint64
	log  *slog.Logger
}

func newTree(log *slog.Logger) *tree {
	return &tree{leaders: map[int]bool{}, ids: map[string]bool{}, seen: map[int]uint64{}, log: log}
}

// members scans /proc. It calls found for each member as soon as it sees it,
// and looks again for those that were started meanwhile.
func (t *tree) members(found func(member)) []member {
	snap := snapshot{listed: map[int]bool{}, buf: make([]byte, statSize)}
	in := make(map[int]bool)
	var members []member
	for range ScanPasses {
		fresh, err := snap.extend()
		if err != nil {
			t.log.Error("cannot look for processes", "error", err)
		}
		if !fresh {
			break
		}
		for _, m := range t.grow(snap.alive, in) {
			t.seen[m.pid] = m.start
			members = append(members, m)
			found(m)
		}
	}
	return members
}

// grow adds to in the members that it lacks, and returns them.
func (t *tree) grow(all []member, in map[int]bool) []member {
	var added []member
	for more := true; more; {
		more = false
		for _, m := range all {
			if !in[m.pid] && (t.holds(m) || in[m.parent]) {
				in[m.pid] = true
				added = append(added, m)
				more = true
			}
		}
	}
	return added
}

// holds reports whether a process belongs to the tree by itself, whatever its
// parents.
func (t *tree) holds(m member) bool {
	start, seen := t.seen[m.pid]
	return t.leaders[m.pid] || t.leaders[m.group] || t.leaders[m.session] ||
		seen && start == m.start || t.ids[m.exec]
}

// signal sends sig to the groups of the leaders, and then to those who left
// them. These are looked for first: when the signal has ended their parents,
// it can no longer be seen whose they are.
func (t *tree) signal(sig syscall.Signal) error {
	members := t.members(func(member) {})
	var first error
	for pid := range t.leaders {
		if err := ignoreGone(unix.Kill(-pid, sig)); err != nil && first == nil {
			first = err
		}
	}
	for _, m := range members {
		if t.leaders[m.group] {
			continue
		}
		if err := m.signal(sig); err != nil {
			t.log.Warn("cannot signal a descendant", "pid", m.pid, "signal", int(sig), "error", err)
		}
	}
	return first
}

// kill ends the whole tree. It stops each member when it sees it, and looks
// again until it sees none that still runs, so that none can fork while others
// are killed; then it kills, and is done when two scans in a row find none.
func (t *tree) kill() {
	k := killing{tree: t, stopped: map[int]uint64{}, immune: map[int]bool{}}
	for empty, scan := 0, 0; empty < 2; scan++ {
		if scan == KillScans {
			t.log.Error("cannot end all descendants", "scans", scan)
			return
		}
		found, fresh := k.scan()
		if len(found) == 0 {
			empty++
			continue
		}
		empty = 0
		// In the second half it no longer waits until everything is stopped.
		if fresh && scan < KillScans/2 {
			continue
		}
		k.kill(found)
	}
}

// killing is the state of one kill.
type killing struct {
	tree *tree
	// stopped are the members that were stopped, by their start.
	stopped map[int]uint64
	// immune are those that the agent has no right to signal.
	immune map[int]bool
}

// scan stops and returns the members, and reports whether one still ran.
func (k *killing) scan() (found []member, fresh bool) {
	for _, m := range k.tree.members(func(m member) {
		if k.stopped[m.pid] != m.start {
			k.stopped[m.pid] = m.start
			fresh = true
			k.signal(m, unix.SIGSTOP)
		}
	}) {
		if !k.immune[m.pid] {
			found = append(found, m)
		}
	}
	return found, fresh
}

func (k *killing) kill(found []member) {
	for _, m := range found {
		k.signal(m, unix.SIGKILL)
	}
	deadline := time.Now().Add(KillWait)
	for _, m := range found {
		m.awaitEnd(deadline)
	}
}

func (k *killing) signal(m member, sig unix.Signal) {
	if err := m.signal(sig); err != nil {
		k.immune[m.pid] = true
		k.tree.log.Warn("cannot signal a descendant", "pid", m.pid, "signal", int(sig), "error", err)
	}
}

// awaitEnd waits until the process has ended, at most until the deadline.
func (m member) awaitEnd(deadline time.Time) {
	fd, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) {
			time.Sleep(KillWait / 10)
		}
		return
	}
	defer unix.Close(fd)
	if !m.same() {
		return
	}
	for left := time.Until(deadline); left > 0; left = time.Until(deadline) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, err := unix.Poll(poll, int(left.Milliseconds())+1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
