package proc

import (
	"os"
	"path/filepath"
	"strings"
)

// memoryGroup is a control group with a limit of memory.
type memoryGroup struct {
	limit, usage, stat *statFile
	// unreclaimable are the numbers in stat that the kernel can't get back by
	// giving up what it can read again.
	unreclaimable []string
	swap          swap
}

// The kernel's memory is counted as far as version 2 tells what of it can't be
// reclaimed. Version 1 does not, so that it counts there only for the kernel.
var (
	unreclaimableV1 = []string{"total_rss", "total_shmem"}
	unreclaimableV2 = []string{
		"anon", "shmem", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock", "vmalloc", "slab_unreclaimable",
	}
)

// openMemoryGroup opens the files of a group. It is nil if there is no limit.
func openMemoryGroup(root string, d groupDir) *memoryGroup {
	g := &memoryGroup{stat: openStat(d.path, "memory.stat"), unreclaimable: unreclaimableV1}
	if d.v2 {
		g.unreclaimable = unreclaimableV2
		g.limit, g.usage = openStat(d.path, "memory.max"), openStat(d.path, "memory.current")
	} else {
		g.limit, g.usage = openStat(d.path, "memory.limit_in_bytes"), openStat(d.path, "memory.usage_in_bytes")
	}
	if _, ok := g.max(); !ok || g.usage == nil || g.stat == nil {
		g.close()
		return nil
	}
	g.swap = openSwap(root, d)
	return g
}

func (g *memoryGroup) close() {
	for _, f := range []*statFile{g.limit, g.usage, g.stat} {
		f.close()
	}
	g.swap.close()
}

// max is the limit in bytes. It may be changed while the agent runs.
func (g *memoryGroup) max() (int64, bool) {
	return parseLimit(g.limit.read(eventsSize))
}

// left is how many bytes may be used before the kernel has to kill something,
// of how many. With rough set it may say less, because it takes what the kernel
// could reclaim as used: that costs less to know.
func (g *memoryGroup) left(rough bool) (left, limit int64) {
	limit, ok := g.max()
	if !ok {
		return noLimit, noLimit
	}
	if rough {
		usage, _ := parseLimit(g.usage.read(eventsSize))
		return limit - usage, limit
	}
	text := g.stat.read(memoryStatSize)
	left = limit + g.swap.left()
	for _, name := range g.unreclaimable {
		left -= named(text, name)
	}
	return left, limit
}

// swap is what a group may still put out to swap space.
type swap struct {
	limit, usage *statFile
	free         *statFile
}

// openSwap opens the files. Without swap space they are nil.
func openSwap(root string, d groupDir) swap {
	info, _ := os.ReadFile(filepath.Join(root, "proc/meminfo"))
	if swapFree(info) == 0 {
		return swap{}
	}
	s := swap{free: openStat(root, "proc/meminfo")}
	if d.v2 {
		s.limit, s.usage = openStat(d.path, "memory.swap.max"), openStat(d.path, "memory.swap.current")
	} else {
		s.limit, s.usage = openStat(d.path, "memory.memsw.limit_in_bytes"), openStat(d.path, "memory.memsw.usage_in_bytes")
	}
	return s
}

func (s swap) close() {
	for _, f := range []*statFile{s.limit, s.usage, s.free} {
		f.close()
	}
}

// left is what both the group and the machine have left.
func (s swap) left() int64 {
	if s.free == nil {
		return 0
	}
	left := swapFree(s.free.read(memoryStatSize))
	if limit, ok := parseLimit(s.limit.read(eventsSize)); ok {
		usage, _ := parseLimit(s.usage.read(eventsSize))
		left = min(left, max(0, limit-usage))
	}
	return left
}

// swapFree reads the line of /proc/meminfo, in bytes.
func swapFree(info []byte) int64 {
	_, after, _ := strings.Cut(string(info), "SwapFree:")
	after, _, _ = strings.Cut(after, " kB")
	n, _ := parseLimit([]byte(after))
	return n << 10
}
