package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/procfs"
)

// errTreeLeft says that a kill gave up.
var errTreeLeft = errors.New("some descendants do not end")

// tree names the processes that belong to one or more execs, wherever they
// went: those in the session or the group of a leader, those with an exec's mark, or
// without a mark with the marker in their environment, and the descendants of all these.
//
// A process below an agent that adopts orphans whose mark is blurred and that has no parent
// left belongs to each exec whose number it may have. It ends with any of them.
type tree struct {
	// leaders are the pids of the execs' own processes. They must not have
	// been reaped: after that a session of the same number may be another's.
	leaders map[int]bool
	// ids are the exec ids, and numbers those of their marks.
	ids     map[string]bool
	numbers map[int]bool
	// seen has the start of each member of earlier scans: members stay in the tree after
	// the parent that showed it is gone.
	seen map[int]uint64
	// everything says that all processes belong to the tree, children that the agent's
	// children do, with their descendants.
	everything, children bool
	// visited says that a scan has seen a process that came into the name space
	// from outside, as with "kubectl exec". It has no parent there and does not
	// belong to the tree: its caller may learn through it how the others ended.
	visited bool
	table   *processTable
	log     *slog.Logger
}

func newTree(table *processTable, log *slog.Logger) *tree {
	return &tree{
		leaders: map[int]bool{}, ids: map[string]bool{}, numbers: map[int]bool{},
		seen: map[int]uint64{}, table: table, log: log,
	}
}

// add adds the descendants of an exec that show by themselves that they are.
func (t *tree) add(p *Process) {
	t.ids[p.id] = true
	if p.mark > 0 {
		t.numbers[p.mark] = true
	}
}

// addAll adds everything else below an agent that is alone: the orphans that it adopted,
// and as PID 1 its whole name space, which ends with it anyway. It adds no visitors.
func (t *tree) addAll() { t.everything, t.children = os.Getpid() == 1, true }

// members scans /proc. It calls found for each member as soon as it sees one, and looks
// again for processes that started meanwhile. After an error it may have missed some.
func (t *tree) members(found func(member)) ([]member, error) {
	t.table.Reserve()
	snap := newSnapshot(t.table)
	in := make(map[int]bool)
	var members []member
	for range scanPasses {
		fresh, err := snap.extend()
		for _, m := range t.grow(snap.alive, in) {
			t.seen[m.pid] = m.start
			members = append(members, m)
			found(m)
		}
		if !fresh || err != nil {
			return members, err
		}
	}
	return members, nil
}

// grow adds the members that in lacks, and returns them.
func (t *tree) grow(all []member, in map[int]bool) []member {
	var added []member
	for more := true; more; {
		more = false
		for _, m := range all {
			t.visited = t.visited || m.parent == 0
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
	return t.everything && m.parent != 0 || t.children && m.parent == os.Getpid() || t.leaders[m.pid] || t.leaders[m.group] || t.leaders[m.session] ||
		seen && start == m.start || t.ids[m.exec] || m.exec == "" && t.bears(m.lineage)
}

// bears reports whether a lineage has a number of the tree.
func (t *tree) bears(l lineage) bool {
	if !l.blurred() {
		return t.numbers[l.low]
	}
	for n := range t.numbers {
		if l.has(n) {
			return true
		}
	}
	return false
}

// signalGroups sends sig to the groups of the leaders, or to everything if that belongs
// to the tree and no visitor was seen. It needs neither a scan nor a descriptor.
func (t *tree) signalGroups(sig syscall.Signal) error {
	if t.everything && !t.visited {
		return ignoreGone(unix.Kill(-1, sig))
	}
	var first error
	for pid := range t.leaders {
		if err := ignoreGone(unix.Kill(-pid, sig)); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// signal sends sig to the groups of the leaders, and then to those that left them. It
// looks for these first: once the signal has ended their parents, nothing shows any more
// which tree they belong to. A failed scan is an error.
func (t *tree) signal(sig syscall.Signal) error {
	members, failed := t.members(func(member) {})
	first := t.signalGroups(sig)
	for _, m := range members {
		if t.everything && !t.visited || t.leaders[m.group] {
			continue
		}
		if err := t.table.signal(m, sig); err != nil {
			t.log.Warn("cannot signal a descendant", "pid", m.pid, "signal", int(sig), "error", err)
		}
	}
	return cmp.Or(first, failed)
}

// awaitEnd waits until none of the tree runs, or ctx ends.
func (t *tree) awaitEnd(ctx context.Context) {
	for {
		members, err := t.members(func(member) {})
		if len(members) == 0 && err == nil {
			return
		}
		select {
		case <-time.After(endPoll):
		case <-ctx.Done():
			return
		}
	}
}

// kill ends the whole tree. It stops each member that it sees, and scans again until all
// are stopped, so that none can fork while others are killed. Then it kills them, and is
// done when two scans in a row find none.
//
// The leaders' groups are stopped at once and killed in any case, whatever the
// scans find. The error says that some of the tree may be left.
func (t *tree) kill() error {
	k := killing{tree: t, stopped: map[int]uint64{}, immune: map[int]error{}}
	if t.everything { // to see visitors; if it fails, so do the scans below
		_, _ = t.members(func(member) {})
	}
	stop := t.signalGroups(unix.SIGSTOP)
	defer k.thaw()
	if t.table.isCrowded() {
		k.freeze()
	}
	failed := k.scans()
	return cmp.Or(t.signalGroups(unix.SIGKILL), stop, failed, k.left)
}

// killing is the state of one kill.
type killing struct {
	tree *tree
	// stopped are the members that were stopped, by their start.
	stopped map[int]uint64
	// immune are the members that the agent may not signal, and why.
	immune map[int]error
	// left is the error of an immune member that the last scan saw, if any.
	left error
	// frozen says that everything is stopped, and asleep is what was before.
	frozen bool
	asleep []member
}

// scans kills the members that it finds until it finds none.
func (k *killing) scans() error {
	var failed error
	for empty, scan := 0, 0; empty < 2; scan++ {
		if scan == killScans {
			return cmp.Or(failed, errTreeLeft)
		}
		var found []member
		var fresh bool
		if found, fresh, failed = k.scan(); failed != nil {
			// Resources that are short now may be back in a moment.
			time.Sleep(killWait / 10)
		}
		if len(found) == 0 {
			if failed == nil {
				empty++
			}
			continue
		}
		empty = 0
		if fresh && scan == freezeScan {
			k.freeze()
		}
		// In the second half it no longer waits until everything is stopped.
		if (fresh || failed != nil) && scan < killScans/2 {
			continue
		}
		k.kill(found)
	}
	return nil
}

// scan stops and returns the members, and reports whether one still ran.
func (k *killing) scan() (found []member, fresh bool, err error) {
	members, err := k.tree.members(func(m member) {
		if k.stopped[m.pid] != m.start {
			k.stopped[m.pid] = m.start
			delete(k.immune, m.pid)
			fresh = true
			k.signal(m, unix.SIGSTOP)
		}
	})
	k.left = nil
	for _, m := range members {
		if immune := k.immune[m.pid]; immune != nil {
			k.left = fmt.Errorf("cannot signal process %d: %w", m.pid, immune)
			continue
		}
		found = append(found, m)
	}
	return found, fresh, err
}

func (k *killing) kill(found []member) {
	for _, m := range found {
		k.signal(m, unix.SIGKILL)
	}
	deadline := time.Now().Add(killWait)
	for _, m := range found {
		k.tree.table.awaitEnd(m, deadline)
	}
}

// signal sends sig, and notes as immune a member that may not be signalled. Any other
// failure may pass.
func (k *killing) signal(m member, sig unix.Signal) {
	err := k.tree.table.signal(m, sig)
	if err == nil {
		return
	}
	k.tree.log.Warn("cannot signal a descendant", "pid", m.pid, "signal", int(sig), "error", err)
	if !procfs.Starved(err) {
		k.immune[m.pid] = err
	}
}
