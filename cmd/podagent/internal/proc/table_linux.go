package proc

import (
	"fmt"
	"os"
	"sync"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/pkg/procfs"
)

// member is one process of the sandbox as /proc shows it.
type member struct {
	pid, parent, group, session int
	// stopped says that a signal or a debugger has stopped it, ended that nothing of it
	// runs any more.
	stopped, ended bool
	// start tells two processes that had the same pid apart, in clock ticks
	// since boot.
	start uint64
	// lineage says which exec it belongs to, and without a mark exec does, the exec id in
	// its environment. Both are empty for a process that is not below the agent, if the
	// agent adopts orphans. If it does not, exec also tells whole marks of other agents' execs apart.
	lineage lineage
	exec    string
	// below says that it descends from the agent.
	below bool
}

// alive is false for a process that only waits to be reaped.
func (m member) alive() bool { return !m.ended }

// processTable finds the processes of the sandbox and signals them. Its [procfs.FS] has a
// descriptor in reserve, so that it does so also when the agent has none left.
type processTable struct {
	procfs.FS
	marks marks
	// adopts says that orphans become children of the agent. Then all processes that the
	// agent started are below it, and others are none of its own, even if they bear the
	// mark of another agent's exec that has the same number.
	adopts bool
	// thread starts all processes, within a boundary of the kernel. nil stands for any
	// thread, without one.
	thread *confine.Thread
	// forking is held for reading from a fork until the reaper knows the child.
	forking sync.RWMutex
}

// snapshot has the processes of one scan of /proc, without this one and PID 1.
type snapshot struct {
	table *processTable
	// listed are all that were listed, alive those of them that run.
	listed map[int]member
	alive  []member
	// again counts how often a process was read again, to see another parent.
	again map[int]int
}

func newSnapshot(table *processTable) *snapshot {
	return &snapshot{table: table, listed: map[int]member{}, again: map[int]int{}}
}

// all returns all processes that run, without this one and PID 1.
func (t *processTable) all() ([]member, error) {
	t.Reserve()
	snap := newSnapshot(t)
	for range scanPasses {
		if fresh, err := snap.extend(); !fresh || err != nil {
			return snap.alive, err
		}
	}
	return snap.alive, nil
}

// extend lists /proc and reads the processes that were not listed before. It reports
// whether there were any, because each may have started another meanwhile. After an
// error it may have missed some.
func (s *snapshot) extend() (fresh bool, err error) {
	pids, err := s.table.PIDs()
	if err != nil {
		return false, fmt.Errorf("cannot list the processes: %w", err)
	}
	begun := len(s.alive)
	for _, pid := range pids {
		if _, listed := s.listed[pid]; listed || pid <= 1 || pid == os.Getpid() {
			continue
		}
		m, err := s.table.member(pid)
		if procfs.Starved(err) {
			return fresh, fmt.Errorf("cannot look at process %d: %w", pid, err)
		}
		if err != nil {
			m.ended = true
		}
		s.listed[pid] = m
		fresh = true
		if m.alive() {
			s.alive = append(s.alive, m)
		}
	}
	dropped, err := s.identify(begun)
	return dropped || fresh, err
}

// identify finds out where the processes from the index begun on belong to. It drops those
// whose parent has ended since they were read, to read them again, and reports whether there
// were any. After an error it may have missed some.
func (s *snapshot) identify(begun int) (dropped bool, err error) {
	settled := s.alive[:begun]
	for _, m := range s.alive[begun:] {
		if s.table.adopts {
			known := false
			if m.below, known = s.descends(m); !known && s.again[m.pid] < rereads {
				delete(s.listed, m.pid)
				s.again[m.pid]++
				dropped = true
				continue
			}
			m.below = m.below || !known // its parent is hidden
		}
		if m.below || !s.table.adopts {
			if starved := s.table.identify(&m); starved != nil {
				err = fmt.Errorf("cannot look at process %d: %w", m.pid, starved)
				delete(s.listed, m.pid)
				continue
			}
		}
		s.listed[m.pid] = m
		settled = append(settled, m)
	}
	s.alive = settled
	for i := begun; i < len(s.alive); i++ {
		m := &s.alive[i]
		if !m.lineage.blurred() {
			continue
		}
		if m.lineage = s.narrow(*m); m.lineage == noLineage {
			m.exec, _ = s.table.Getenv(m.pid, markerEnv) // one that hides its environment has no marker
		}
	}
	return dropped, err
}

// descends reports whether a process descends from this one. That is known unless one of
// its ancestors has ended.
func (s *snapshot) descends(m member) (below, known bool) {
	for range len(s.listed) + 1 {
		if m.parent == os.Getpid() {
			return true, true
		}
		if m.parent <= 1 {
			return false, true
		}
		parent, listed := s.listed[m.parent]
		if !listed || parent.ended {
			return false, false
		}
		m = parent
	}
	return false, false
}

// narrow returns the lineage of a process with a blurred mark: that of its nearest
// ancestor with a whole one, if there is one. The parents of a process show the truth, as
// long as they live. Without them, an agent that adopts no orphans cannot know whose the
// process is, and takes it for one without a mark.
func (s *snapshot) narrow(m member) lineage {
	parent, ok := s.listed[m.parent]
	for range len(s.listed) {
		if !ok || parent.ended || parent.lineage.whole() {
			break
		}
		parent, ok = s.listed[parent.parent]
	}
	if ok && parent.lineage.whole() {
		return parent.lineage
	}
	if !s.table.adopts {
		return noLineage
	}
	return m.lineage
}

// identify reads what shows which exec a process belongs to. Its error says that the agent
// lacks a descriptor or memory to do so.
func (t *processTable) identify(m *member) (starved error) {
	lineage, err := t.marks.lineageOf(m.pid, &t.FS)
	m.lineage = lineage
	if err == nil && (lineage == noLineage || lineage.whole() && !t.adopts) {
		m.exec, err = t.Getenv(m.pid, markerEnv)
	}
	if procfs.Starved(err) {
		return err
	}
	return nil // a process that hides its environment counts as one without a marker
}

// member returns a process, without the exec that it belongs to.
func (t *processTable) member(pid int) (member, error) {
	s, err := t.Stat(pid)
	return member{pid: pid, parent: s.Parent, group: s.Group, session: s.Session, stopped: s.State == 'T', ended: s.Ended(), start: s.Start}, err
}
