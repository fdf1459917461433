package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// used2 and used1 are the files of groups that use something, in both versions.
var (
	used2 = map[string]string{
		"proc/self/cgroup":             "0::/\n",
		"proc/self/mountinfo":          "35 31 0:32 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n",
		"sys/fs/cgroup/cpu.stat":       "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 9\nnr_throttled 3\nthrottled_usec 700\n",
		"sys/fs/cgroup/cpu.max":        "150000 100000\n",
		"sys/fs/cgroup/memory.current": "700\n",
		"sys/fs/cgroup/memory.stat":    "anon 100\nfile 500\nkernel_stack 7\ninactive_anon 90\nactive_anon 10\ninactive_file 200\nactive_file 300\n",
		"sys/fs/cgroup/memory.peak":    "900\n",
		"sys/fs/cgroup/memory.max":     "1000\n",
		"sys/fs/cgroup/pids.current":   "12\n",
		"sys/fs/cgroup/pids.max":       "1024\n",
	}
	used1 = map[string]string{
		"proc/self/cgroup": "4:memory:/pod/c\n3:pids:/pod/c\n2:cpu,cpuacct:/pod/c\n0::/\n",
		"proc/self/mountinfo": "35 31 0:32 /pod /m ro - cgroup cgroup rw,memory\n" +
			"36 31 0:33 /pod/c /p ro - cgroup cgroup rw,pids\n37 31 0:34 /pod /c ro - cgroup cgroup rw,cpu,cpuacct\n",
		"c/c/cpuacct.usage":             "2500000000\n",
		"c/c/cpu.stat":                  "nr_periods 9\nnr_throttled 3\nthrottled_time 700000\n",
		"c/c/cpu.cfs_quota_us":          "-1\n",
		"c/c/cpu.cfs_period_us":         "100000\n",
		"c/cpu.cfs_quota_us":            "150000\n",
		"c/cpu.cfs_period_us":           "100000\n",
		"m/c/memory.usage_in_bytes":     "700\n",
		"m/c/memory.stat":               "inactive_file 1\ntotal_cache 500\ntotal_inactive_file 200\n",
		"m/c/memory.limit_in_bytes":     "9223372036854771712\n",
		"m/c/memory.max_usage_in_bytes": "900\n",
		"m/memory.limit_in_bytes":       "1000\n",
		"p/pids.current":                "12\n",
		"p/pids.max":                    "1024\n",
	}
)

func usageOf(t *testing.T, files map[string]string) Usage {
	t.Helper()
	m := OpenMeters(fakeRoot(t, files))
	defer m.Close()
	return m.Read()
}

func TestUsageIsReadInBothVersions(t *testing.T) {
	want := Usage{
		CPU: new(2500 * time.Millisecond), Throttled: new(700 * time.Microsecond), CPULimit: new(1500 * time.Millisecond),
		Memory: new(int64(700)), WorkingSet: new(int64(500)), Peak: new(int64(900)), MemoryLimit: new(int64(1000)),
		PIDs: new(int64(12)), PIDLimit: new(int64(1024)),
	}
	for name, files := range map[string]map[string]string{"version 2": used2, "version 1": used1} {
		if diff := cmp.Diff(want, usageOf(t, files)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUsageOfNoGroupIsUnknown(t *testing.T) {
	var none *Meters
	if diff := cmp.Diff(Usage{}, none.Read()); diff != "" {
		t.Errorf("without meters: %s", diff)
	}
	if diff := cmp.Diff(Usage{}, usageOf(t, map[string]string{"proc/self/cgroup": "0::/\n"})); diff != "" {
		t.Errorf("without a mount: %s", diff)
	}
	m := OpenMeters(fakeRoot(t, used2))
	m.Close()
	if diff := cmp.Diff(Usage{}, m.Read()); diff != "" {
		t.Errorf("after the close: %s", diff)
	}
}

// The limits of a pod may change while it runs.
func TestUsageFollowsTheFiles(t *testing.T) {
	root := fakeRoot(t, used2)
	m := OpenMeters(root)
	defer m.Close()
	for name, text := range map[string]string{"memory.max": "2000\n", "memory.current": "1500\n", "cpu.max": "max 100000\n"} {
		if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if u := m.Read(); *u.MemoryLimit != 2000 || *u.Memory != 1500 || *u.WorkingSet != 1300 || u.CPULimit != nil {
		t.Errorf("it has %d of %d, working set %d, limit of processors %v", *u.Memory, *u.MemoryLimit, *u.WorkingSet, u.CPULimit)
	}
}

func TestNumberThatCannotBeReadIsUnknown(t *testing.T) {
	const dir = "sys/fs/cgroup/"
	for _, c := range []struct {
		file, text string
		lose       func(*Usage)
	}{
		{"cpu.stat", "", func(u *Usage) { u.CPU, u.Throttled = nil, nil }},
		{"cpu.stat", "usage_usec 2500000\n", func(u *Usage) { u.Throttled = nil }},
		{"cpu.stat", "usage_usec\nthrottled_usec 700", func(u *Usage) { u.CPU, u.Throttled = nil, nil }}, // cut
		{"cpu.stat", "usage_usec 4611686018427388\nthrottled_usec -1\n", func(u *Usage) { u.CPU, u.Throttled = nil, nil }},
		{"cpu.stat", "usage_usec 99999999999999999999\nusage_usec 1\nthrottled_usec 700\n", func(u *Usage) { u.CPU = nil }},
		{"cpu.max", "max 100000\n", func(u *Usage) { u.CPULimit = nil }},
		{"cpu.max", "150000\n", func(u *Usage) { u.CPULimit = nil }},
		{"cpu.max", "150000 0\n", func(u *Usage) { u.CPULimit = nil }},
		{"cpu.max", "150000 -5\n", func(u *Usage) { u.CPULimit = nil }},
		{"cpu.max", "4611686018427387903 1\n", func(u *Usage) { u.CPULimit = nil }},
		{"cpu.max", "1 2 3\n", func(u *Usage) { u.CPULimit = nil }},
		{"memory.current", "many\n", func(u *Usage) { u.Memory, u.WorkingSet = nil, nil }},
		{"memory.current", "-700\n", func(u *Usage) { u.Memory, u.WorkingSet = nil, nil }},
		{"memory.current", "100\n", func(u *Usage) { u.Memory, u.WorkingSet = new(int64(100)), new(int64(0)) }}, // read later
		{"memory.stat", "inactive_file x\n", func(u *Usage) { u.WorkingSet = nil }},
		{"memory.stat", "anon 5\n", func(u *Usage) { u.WorkingSet = nil }},
		{"memory.peak", "\n", func(u *Usage) { u.Peak = nil }},
		{"memory.max", "max\n", func(u *Usage) { u.MemoryLimit = nil }},
		{"pids.current", "1 2\n", func(u *Usage) { u.PIDs = nil }},
		{"pids.max", "\x00\xff\n", func(u *Usage) { u.PIDLimit = nil }},
	} {
		files := maps.Clone(used2)
		want := usageOf(t, files)
		files[dir+c.file] = c.text
		c.lose(&want)
		if diff := cmp.Diff(want, usageOf(t, files)); diff != "" {
			t.Errorf("%s is %q (-want +got):\n%s", c.file, c.text, diff)
		}
	}
}

func FuzzUsage(f *testing.F) {
	for name, text := range used2 {
		f.Add(filepath.Base(name), text)
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		name = "sys/fs/cgroup/" + name
		files := maps.Clone(used2)
		if _, ok := files[name]; !ok {
			return
		}
		files[name] = text
		u := usageOf(t, files)
		for what, n := range map[string]*int64{
			"cpu": (*int64)(u.CPU), "throttled": (*int64)(u.Throttled), "limit": (*int64)(u.CPULimit), "memory": u.Memory, "working set": u.WorkingSet,
			"peak": u.Peak, "memory limit": u.MemoryLimit, "pids": u.PIDs, "pids limit": u.PIDLimit,
		} {
			if n != nil && *n < 0 {
				t.Errorf("%s is %d", what, *n)
			}
		}
	})
}

// A look costs a system call for each file.
func BenchmarkUsage(b *testing.B) {
	m := OpenMeters("/")
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		m.Read()
	}
}
