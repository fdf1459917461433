package cgroup

import (
	"os"
	"path/filepath"
	"strings"
)

// Memory is a control group with a limit of memory.
type Memory struct {
	limit, usage, stat *statFile
	// unreclaimable are the names in stat of the memory that the kernel cannot get back
	// by dropping pages that it can read again.
	unreclaimable []string
	swap          swap
}

// Version 2 tells which part of the kernel's own memory can't be reclaimed, and this part
// counts. Version 1 does not tell, so none of it counts.
var (
	unreclaimableV1 = []string{"total_rss", "total_shmem"}
	unreclaimableV2 = []string{
		"anon", "shmem", "kernel_stack", "pagetables", "sec_pagetables", "percpu", "sock", "vmalloc", "slab_unreclaimable",
	}
)

// openMemory opens the files of a group. It is nil if the group has no limit.
func openMemory(root string, d groupDir) *Memory {
	g := &Memory{stat: openStat(d.path, "memory.stat"), unreclaimable: unreclaimableV1}
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

func (g *Memory) close() {
	for _, f := range []*statFile{g.limit, g.usage, g.stat} {
		f.close()
	}
	g.swap.close()
}

// max is the limit in bytes. It may be changed while the agent runs.
func (g *Memory) max() (int64, bool) {
	return parseLimit(g.limit.read(eventsSize))
}

// Left is how many bytes are left before the kernel must kill something, and the limit
// that they are part of. A rough answer costs less and may be too low: it counts
// memory that the kernel could reclaim as used. Without a limit both are 2^62.
func (g *Memory) Left(rough bool) (left, limit int64) {
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

// swap is how much a group may still move to swap space.
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

// left is how many bytes both the group and the machine have left.
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
