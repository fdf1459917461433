package proc

import (
	"log/slog"
	"strconv"
	"strings"
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
	fs        *procfs
	groups    []*cgroup.Memory
	processes func() []*Process
	// forgotten reports whether an exec was this agent's and has been forgotten.
	forgotten func(id string) bool
	stop      chan struct{}
	stopped   sync.WaitGroup
	// seen is how much memory was left at the last look.
	seen map[*cgroup.Memory]seenMemory
	// helpless says that the log has been told that nothing can be ended.
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

// lead is how much of the memory left will be gone before the guard can act, if
// it shrinks on as it did since the last look.
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
	whole := newTree(g.fs, g.log)
	whole.ids[t.id] = true
	if p != nil && p.pin() {
		defer p.unpin()
		p.noteKill()
		p.condemn(OutOfMemory)
		whole.leaders[p.pid] = true
	}
	for _, m := range t.members {
		whole.seen[m.pid] = m.start
		g.fs.signal(m, unix.SIGKILL) // kill tries again
	}
	if err := whole.kill(); err != nil {
		g.log.Error("cannot end all of the largest exec", "exec", t.id, "error", err)
	}
}

// execTree is the processes of one exec. The exec itself may have ended, and may have
// been forgotten: process is nil then.
type execTree struct {
	id      string
	process *Process
	members []member
	size    int64 // of its memory, in bytes
}

// trees are the execs that have processes, by one scan of /proc. It leaves out those
// that belong to another agent on the same machine, or are just being started.
func (g *guard) trees() (map[string]*execTree, error) {
	snap := snapshot{fs: g.fs, listed: map[int]bool{}}
	if _, err := snap.extend(); err != nil {
		return nil, err
	}
	known, leaders := map[string]*Process{}, map[int]string{}
	for _, p := range g.processes() {
		known[p.id] = p
		if p.running() {
			leaders[p.pid] = p.id
		}
	}
	trees := map[string]*execTree{}
	for id, members := range byExec(snap.alive, leaders) {
		if known[id] == nil && !g.forgotten(id) {
			continue
		}
		t := &execTree{id: id, process: known[id], members: members}
		for _, m := range members {
			t.size += g.fs.memory(m.pid)
		}
		trees[id] = t
	}
	return trees, nil
}

// byExec sorts processes by the exec that they belong to, as [tree] does: by
// session and group, marker, or parents.
func byExec(all []member, leaders map[int]string) map[string][]member {
	owner := map[int]string{}
	own := func(m member) string {
		for _, id := range []string{leaders[m.pid], leaders[m.group], leaders[m.session], m.exec} {
			if id != "" {
				return id
			}
		}
		return owner[m.parent]
	}
	trees := map[string][]member{}
	for more := true; more; {
		more = false
		for _, m := range all {
			if id := own(m); id != "" && owner[m.pid] == "" {
				owner[m.pid] = id
				trees[id] = append(trees[id], m)
				more = true
			}
		}
	}
	return trees
}

// memory is how many bytes a process holds that can't be reclaimed. Mapped files are
// therefore left out. Shared pages count for each process that shares them.
func (fs *procfs) memory(pid int) (size int64) {
	fs.with(procPath(pid, "status"), func(fd int) error {
		text, err := readAll(fd)
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if name != "RssAnon" && name != "RssShmem" {
				continue
			}
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
			size += n << 10
		}
		return err
	})
	return size
}
