package cgroup

import (
	"bytes"
	"strconv"
	"time"
)

// Usage is what the processes of a group use, and may use. What is not known is nil, and
// so is a limit that there is not.
type Usage struct {
	// CPU is the processor time used so far, and Throttled how long the limit held the
	// group up. CPULimit is the processor time that it may use in a second.
	CPU, Throttled, CPULimit *time.Duration
	// Memory is in bytes, with the page cache. WorkingSet is without the file pages that
	// were not used of late. Peak is the highest Memory so far.
	Memory, WorkingSet, Peak, MemoryLimit *int64
	// PIDs counts processes and threads.
	PIDs, PIDLimit *int64
}

// Meters read the usage of the group that the calling process is in. Their files stay open,
// so that they can be read when no descriptor is left. Nil ones know nothing. Their methods
// may be called concurrently.
type Meters struct {
	v2                   bool // of cpu and cpuacct
	cpu, cpuStat         *statFile
	memory, memoryStat   *statFile
	inactive             string // the name in memoryStat of the file pages not used of late
	peak, pids           *statFile
	quotas               []quota
	memoryMaxs, pidsMaxs []*statFile
}

// quota is a limit of processor time: how much may be used in each period.
type quota struct {
	max, period *statFile // period is nil in version 2, whose max has both
}

// OpenMeters opens the files of the group, and those with the limits of the groups above it,
// as far as they are mounted. root is as for [Open]. The caller closes them.
func OpenMeters(root string) *Meters {
	m := &Meters{}
	m.openCPU(controllerDirs(root, "cpu"), controllerDirs(root, "cpuacct"))
	m.openMemory(controllerDirs(root, "memory"))
	for i, d := range controllerDirs(root, "pids") {
		if i == 0 {
			m.pids = openStat(d.path, "pids.current")
		}
		m.pidsMaxs = append(m.pidsMaxs, openStat(d.path, "pids.max"))
	}
	return m
}

// openCPU opens the files of processors, which version 1 divides among two controllers.
func (m *Meters) openCPU(limits, times []groupDir) {
	for i, d := range limits {
		if i == 0 {
			m.v2, m.cpuStat = d.v2, openStat(d.path, "cpu.stat")
		}
		if d.v2 {
			m.quotas = append(m.quotas, quota{max: openStat(d.path, "cpu.max")})
		} else {
			m.quotas = append(m.quotas, quota{openStat(d.path, "cpu.cfs_quota_us"), openStat(d.path, "cpu.cfs_period_us")})
		}
	}
	if !m.v2 && len(times) > 0 {
		m.cpu = openStat(times[0].path, "cpuacct.usage")
	}
}

func (m *Meters) openMemory(dirs []groupDir) {
	for i, d := range dirs {
		usage, peak, limit := "memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.limit_in_bytes"
		m.inactive = "total_inactive_file"
		if d.v2 {
			usage, peak, limit, m.inactive = "memory.current", "memory.peak", "memory.max", "inactive_file"
		}
		if i == 0 {
			m.memory, m.memoryStat, m.peak = openStat(d.path, usage), openStat(d.path, "memory.stat"), openStat(d.path, peak)
		}
		m.memoryMaxs = append(m.memoryMaxs, openStat(d.path, limit))
	}
}

// Close closes the files. Afterwards nothing is known.
func (m *Meters) Close() {
	if m == nil {
		return
	}
	files := []*statFile{m.cpu, m.cpuStat, m.memory, m.memoryStat, m.peak, m.pids}
	files = append(append(files, m.memoryMaxs...), m.pidsMaxs...)
	for _, q := range m.quotas {
		files = append(files, q.max, q.period)
	}
	for _, f := range files {
		f.close()
	}
}

// Read returns the usage now. It takes some 50 µs: a system call for each file.
func (m *Meters) Read() Usage {
	var u Usage
	if m == nil {
		return u
	}
	u.CPU, u.Throttled = m.cpuTimes()
	for _, q := range m.quotas {
		u.CPULimit = lower(u.CPULimit, q.perSecond())
	}
	u.Memory, u.Peak = m.memory.number(), m.peak.number()
	if cold := find(m.memoryStat.read(memoryStatSize), m.inactive); u.Memory != nil && cold != nil {
		u.WorkingSet = new(max(0, *u.Memory-*cold))
	}
	for _, f := range m.memoryMaxs {
		u.MemoryLimit = lower(u.MemoryLimit, f.number())
	}
	u.PIDs = m.pids.number()
	for _, f := range m.pidsMaxs {
		u.PIDLimit = lower(u.PIDLimit, f.number())
	}
	return u
}

// cpuTimes reads the times of processors: version 2 has microseconds, version 1 nanoseconds.
func (m *Meters) cpuTimes() (used, throttled *time.Duration) {
	text := m.cpuStat.read(eventsSize)
	if m.v2 {
		return times(find(text, "usage_usec"), time.Microsecond), times(find(text, "throttled_usec"), time.Microsecond)
	}
	return times(m.cpu.number(), time.Nanosecond), times(find(text, "throttled_time"), time.Nanosecond)
}

// times returns n units, nil if that is not known or more than a duration can be.
func times(n *int64, unit time.Duration) *time.Duration {
	if n == nil || *n > noLimit/int64(unit) {
		return nil
	}
	return new(time.Duration(*n) * unit)
}

// perSecond returns the processor time for a second, nil without a limit.
func (q quota) perSecond() *time.Duration {
	text := bytes.Fields(q.max.read(eventsSize))
	if q.period != nil {
		text = append(text, bytes.Fields(q.period.read(eventsSize))...)
	}
	if len(text) != 2 {
		return nil
	}
	quota, period := natural(text[0]), natural(text[1])
	if quota == nil || period == nil || *period == 0 || *quota > noLimit/int64(time.Second) {
		return nil
	}
	return new(time.Duration(*quota * int64(time.Second) / *period))
}

// lower returns the lower one of two limits.
func lower[N int64 | time.Duration](a, b *N) *N {
	if a == nil || b != nil && *b < *a {
		return b
	}
	return a
}

// number reads a file with one number.
func (s *statFile) number() *int64 { return natural(bytes.TrimSpace(s.read(eventsSize))) }

// natural returns a number that is not negative, nil if the text is none. One that means no
// limit is none, too.
func natural(text []byte) *int64 {
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n < 0 || n >= noLimit {
		return nil
	}
	return &n
}

// find returns the number that a line gives a name, nil if no whole line does.
func find(text []byte, name string) *int64 {
	for line := range bytes.Lines(text) {
		k, v, ok := bytes.Cut(line, []byte(" "))
		if v, whole := bytes.CutSuffix(v, []byte("\n")); ok && whole && string(k) == name {
			return natural(v)
		}
	}
	return nil
}
