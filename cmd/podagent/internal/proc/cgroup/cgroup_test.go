package cgroup

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeRoot makes a file system with the agent's control groups.
func fakeRoot(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// A Kubernetes container with version 2, in its own cgroup namespace.
var version2 = map[string]string{
	"proc/self/cgroup":            "0::/\n",
	"proc/self/mountinfo":         "1 0 0:1 / / rw - overlay overlay rw\n35 31 0:32 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n",
	"proc/meminfo":                "MemTotal: 100 kB\nSwapFree: 0 kB\n",
	"sys/fs/cgroup/memory.max":    "1073741824\n",
	"sys/fs/cgroup/memory.events": "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 1\n",
	"sys/fs/cgroup/pids.max":      "1024\n",
	"sys/fs/cgroup/pids.events":   "max 7\n",

	"sys/fs/cgroup/memory.current": "734003200\n",
	"sys/fs/cgroup/memory.stat": "anon 104857600\nfile 524288000\nkernel 104857600\nkernel_stack 1048576\npagetables 2097152\n" +
		"sec_pagetables 0\npercpu 0\nsock 0\nvmalloc 0\nshmem 209715200\nslab_reclaimable 104857600\nslab_unreclaimable 1048576\n",
}

// A container with version 1, on a node whose groups it sees in part.
var version1 = map[string]string{
	"proc/self/cgroup": "4:memory:/kubepods/pod1/c1\n3:pids:/kubepods/pod1/c1\n2:cpu,cpuacct:/\n0::/\n",
	"proc/self/mountinfo": "35 31 0:32 /kubepods/pod1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n" +
		"36 31 0:33 /kubepods/pod1 /sys/fs/cgroup/pids ro shared:1 - cgroup cgroup rw,pids\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
	"sys/fs/cgroup/memory/c1/memory.limit_in_bytes": "9223372036854771712\n",
	"sys/fs/cgroup/memory/c1/memory.usage_in_bytes": "1\n",
	"sys/fs/cgroup/memory/c1/memory.stat":           "total_rss 1\n",
	"sys/fs/cgroup/memory/c1/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	"sys/fs/cgroup/memory/memory.limit_in_bytes":    "1073741824\n",
	"sys/fs/cgroup/memory/memory.usage_in_bytes":    "734003200\n",
	"sys/fs/cgroup/memory/memory.stat":              "rss 5\ntotal_rss 104857600\ntotal_shmem 209715200\ntotal_cache 524288000\n",
	"sys/fs/cgroup/pids/c1/pids.max":                "max\n",
	"sys/fs/cgroup/pids/c1/pids.events":             "max 7\n",
	"sys/fs/cgroup/pids/pids.max":                   "1024\n",
}

func TestCgroupIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		// exact is how much of the gibibyte is left.
		exact int64
	}{
		"version 2": {version2, 1<<30 - 300<<20 - 4<<20},
		"version 1": {version1, 1<<30 - 300<<20},
		"nothing":   {map[string]string{"proc/self/cgroup": "0::/\n"}, -1},
	} {
		g := Open(fakeRoot(t, c.files))
		defer g.Close()
		want := Events{OOMKills: 2, ProcessLimit: 7}
		if c.exact < 0 {
			want = Events{}
		}
		if diff := cmp.Diff(want, g.Events()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c.exact < 0 {
			continue
		}
		if len(g.Memory) != 1 || g.ProcessMax != 1024 {
			t.Fatalf("%s: %d groups have a memory limit, the process limit is %d", name, len(g.Memory), g.ProcessMax)
		}
		if left, limit := g.Memory[0].Left(true); left != 1<<30-700<<20 || limit != 1<<30 {
			t.Errorf("%s: roughly %d of %d are left", name, left, limit)
		}
		if left, limit := g.Memory[0].Left(false); left != c.exact || limit != 1<<30 {
			t.Errorf("%s: %d of %d are left", name, left, limit)
		}
	}
}

func TestSwapIsMemoryThatIsLeft(t *testing.T) {
	files := maps.Clone(version2)
	files["proc/meminfo"] = "SwapTotal: 2048 kB\nSwapFree:      1024 kB\n"
	files["sys/fs/cgroup/memory.swap.max"] = "max\n"
	files["sys/fs/cgroup/memory.swap.current"] = "0\n"
	root := fakeRoot(t, files)
	g := Open(root)
	defer g.Close()
	without := int64(1<<30 - 304<<20)
	if left, _ := g.Memory[0].Left(false); left != without+1<<20 {
		t.Errorf("%d are left", left)
	}
	if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup/memory.swap.max"), []byte("4096\n"), 0); err != nil {
		t.Fatal(err)
	}
	if left, _ := g.Memory[0].Left(false); left != without+4096 {
		t.Errorf("%d are left when there is little swap", left)
	}
}
