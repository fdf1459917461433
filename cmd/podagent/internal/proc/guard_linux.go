package proc

import (
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
)

// guard ends the largest exec shortly before the sandbox's memory runs out.
// Without it the kernel would choose: under version 2 of control groups it may
// kill the whole container, with the agent (memory.oom.group).
//
// It looks so often that guardRate cannot use up the memory between two looks, and acts
// earlier if the memory shrinks faster. If a process takes memory faster than that, the
// kernel kills it.
type guard struct {
	log       *slog.Logger
	table     *processTable
	groups    []*cgroup.Memory
	processes func() []*Process
	// sort sorts processes by the ids of their execs, and the strays under "".
	sort    func([]member) map[string][]member
	stop    chan struct{}
	stopped sync.WaitGroup
	// seen is how much memory was left at the last look.
	seen map[*cgroup.Memory]seenMemory
	// helpless says that the log already says that nothing can be ended.
	helpless bool
}

type seenMemory struct {
	left int64
	at   time.Time
}

// watch begins to guard, if there is a limit of memory.
func (g *guard) watch() {
	g.stop = make(chan struct{})
	if len(g.groups) > 0 {
		g.stopped.Go(g.loop)
	}
}

// close ends the guarding.
func (g *guard) close() {
	if g.stop != nil {
		close(g.stop)
		g.stopped.Wait()
		g.stop = nil
	}
}

func (g *guard) loop() {
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			next.Reset(g.look())
		case <-g.stop:
			return
		}
	}
}

// look relieves the memory if it must, and returns when to look again.
func (g *guard) look() time.Duration {
	next := guardRarely
	for _, group := range g.groups {
		left, limit := group.Left(true)
		if left < limit/2 {
			left, limit = group.Left(false)
		}
		left -= reserve(limit) + g.lead(group, left, limit)
		if left <= 0 {
			g.relieve(reserve(limit))
			return guardPause
		}
		next = min(next, time.Duration(float64(left)/guardRate*float64(time.Second)))
	}
	return max(next, guardOften)
}

// lead is how much of the memory left will be gone before the guard can act, if it keeps
// shrinking as it did since the last look.
func (g *guard) lead(group *cgroup.Memory, left, limit int64) int64 {
	before, now := g.seen[group], time.Now()
	if g.seen == nil {
		g.seen = map[*cgroup.Memory]seenMemory{}
	}
	g.seen[group] = seenMemory{left, now}
	if before.at.IsZero() || left >= before.left {
		return 0
	}
	rate := float64(before.left-left) / float64(now.Sub(before.at))
	return min(int64(rate*float64(guardReaction)), reserve(limit))
}

// reserve is how much of limit must stay free.
func reserve(limit int64) int64 {
	return min(max(limit/guardShare, guardMinimum), guardMaximum)
}

// relieve ends the largest exec. If all execs together hold less than need, something else
// holds the memory, such as files of a tmpfs or the agent. Then ending them would not
// help.
func (g *guard) relieve(need int64) {
	trees, err := g.trees()
	if err != nil {
		g.log.Error("memory is nearly used up, and the processes cannot be listed", "error", err)
		return
	}
	var largest *execTree
	var sum int64
	for _, t := range trees {
		sum += t.size
		if largest == nil || t.size > largest.size {
			largest = t
		}
	}
	if sum < need {
		if !g.helpless {
			g.log.Error("memory is nearly used up, but not by what the agent started", "processes", sum)
		}
		g.helpless = true
		return
	}
	g.helpless = false
	g.killTree(largest)
}

// killTree kills a tree at once: first the members that were seen, then all others.
func (g *guard) killTree(t *execTree) {
	p := t.process
	g.log.Warn("memory is nearly used up: ending the largest exec", "exec", t.id, "bytes", t.size)
	whole := newTree(g.table, g.log)
	if t.id != "" {
		whole.ids[t.id] = true
	}
	if p != nil {
		whole.add(p)
	}
	if p != nil && p.pin() {
		defer p.unpin()
		p.noteKill()
		p.condemn(OutOfMemory)
		whole.leaders[p.pid] = true
	}
	for _, m := range t.members {
		whole.seen[m.pid] = m.start
		g.table.signal(m, unix.SIGKILL) // kill tries again
	}
	if err := whole.kill(); err != nil {
		g.log.Error("cannot end all of the largest exec", "exec", t.id, "error", err)
	}
}

// execTree is the processes of one exec. The exec itself may have ended, and may have
// been forgotten: process is nil then.
type execTree struct {
	// id is "" for the strays.
	id      string
	process *Process
	members []member
	size    int64 // of its memory, in bytes
}

// trees are the execs that have processes, and the strays as one tree, by one scan of
// /proc. It leaves out those that belong to another agent on the same machine, or are just
// being started.
func (g *guard) trees() (map[string]*execTree, error) {
	all, err := g.table.all()
	if err != nil {
		return nil, err
	}
	trees := map[string]*execTree{}
	for id, members := range g.sort(all) {
		t := &execTree{id: id, members: members}
		for _, m := range members {
			size, _ := g.table.Unreclaimable(m.pid) // 0 if the process has ended
			t.size += size
		}
		trees[id] = t
	}
	for _, p := range g.processes() {
		if t := trees[p.id]; t != nil {
			t.process = p
		}
	}
	return trees, nil
}
