package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeRoot makes a file system in which the agent finds its control groups.
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

// A container of Kubernetes with version 2, in a name space of its own.
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

// The same with version 1, on a node whose groups the container sees in part.
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
		// exact is what of the gibibyte is left.
		exact int64
	}{
		"version 2": {version2, 1<<30 - 300<<20 - 4<<20},
		"version 1": {version1, 1<<30 - 300<<20},
		"nothing":   {map[string]string{"proc/self/cgroup": "0::/\n"}, -1},
	} {
		g := openCgroup(fakeRoot(t, c.files))
		defer g.close()
		want := cgroupEvents{oomKills: 2, processLimit: 7}
		if c.exact < 0 {
			want = cgroupEvents{}
		}
		if diff := cmp.Diff(want, g.events(), cmp.AllowUnexported(cgroupEvents{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if c.exact < 0 {
			continue
		}
		if len(g.memory) != 1 || g.processMax != 1024 {
			t.Fatalf("%s: %d groups have a limit of memory, the limit of processes is %d", name, len(g.memory), g.processMax)
		}
		if left, limit := g.memory[0].left(true); left != 1<<30-700<<20 || limit != 1<<30 {
			t.Errorf("%s: roughly %d of %d are left", name, left, limit)
		}
		if left, limit := g.memory[0].left(false); left != c.exact || limit != 1<<30 {
			t.Errorf("%s: %d of %d are left", name, left, limit)
		}
	}
}

func TestSwapIsMemoryThatIsLeft(t *testing.T) {
	files := map[string]string{}
	for name, text := range version2 {
		files[name] = text
	}
	files["proc/meminfo"] = "SwapTotal: 2048 kB\nSwapFree:      1024 kB\n"
	files["sys/fs/cgroup/memory.swap.max"] = "max\n"
	files["sys/fs/cgroup/memory.swap.current"] = "0\n"
	root := fakeRoot(t, files)
	g := openCgroup(root)
	defer g.close()
	without := int64(1<<30 - 304<<20)
	if left, _ := g.memory[0].left(false); left != without+1<<20 {
		t.Errorf("%d are left", left)
	}
	if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup/memory.swap.max"), []byte("4096\n"), 0); err != nil {
		t.Fatal(err)
	}
	if left, _ := g.memory[0].left(false); left != without+4096 {
		t.Errorf("%d are left with little swap", left)
	}
}

func TestGuardLooksMoreOftenNearTheLimit(t *testing.T) {
	root := fakeRoot(t, version2)
	c := openCgroup(root)
	defer c.close()
	g := &guard{groups: c.memory}
	use := func(file int64, anon int64) {
		t.Helper()
		write := func(name, text string) {
			if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup", name), []byte(text), 0); err != nil {
				t.Fatal(err)
			}
		}
		write("memory.current", fmt.Sprintln(file+anon))
		write("memory.stat", fmt.Sprintf("anon %d\nfile %d\n", anon, file))
	}
	var last time.Duration
	for i, c := range []struct{ file, anon int64 }{{0, 950 << 20}, {50 << 20, 900 << 20}, {0, 512 << 20}, {1000 << 20, 10 << 20}, {0, 0}} {
		use(c.file, c.anon)
		next := g.look()
		if next < last || next < guardOften || next > guardRarely {
			t.Errorf("%d: looks again in %v, after %v", i, next, last)
		}
		last = next
	}
}

// The memory of version 2 is a fake here, the processes are real.
func TestGuardEndsTheLargestExec(t *testing.T) {
	root := fakeRoot(t, version2)
	m := newManager(t)
	hog := start(t, m, shell(t, `(head -c 40000000 /dev/zero; exec sleep 300) | tail -c 50000000 & sleep 300`))
	other := start(t, m, shell(t, "exec sleep 300"))
	ended := start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 &"))
	finish(t, ended)
	m.guard.groups = openCgroup(root).memory
	eventually(t, "a large exec", func() bool {
		trees, err := m.guard.trees()
		if err != nil {
			t.Fatal(err)
		}
		return len(trees) == 3 && trees[hog.id].size > 40000000
	})
	full := fmt.Sprintf("anon %d\n", 1<<30-guardMaximum+1)
	for name, text := range map[string]string{"memory.stat": full, "memory.current": "1073741823\n"} {
		if err := os.WriteFile(filepath.Join(root, "sys/fs/cgroup", name), []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	// What all execs have together is less than what has to be left: to end one
	// would be in vain.
	if next := m.guard.look(); next != guardPause || !hog.running() {
		t.Errorf("looks again in %v; running: %v", next, hog.running())
	}
	m.guard.relieve(guardMinimum)
	if st := finish(t, hog).status; st.Reason != OutOfMemory || st.Signal != int(syscall.SIGKILL) || st.Code != 137 {
		t.Errorf("got %+v", st)
	}
	if !other.running() {
		t.Error("the other exec ended")
	}
	trees, err := m.guard.trees()
	if err != nil || trees[hog.id] != nil || trees[ended.id] == nil {
		t.Errorf("%v, %v", trees, err)
	}
	if err := ended.Signal(syscall.SIGKILL); err != nil {
		t.Errorf("what outlived an exec: %v", err)
	}
}

// What an exec that was forgotten has left behind is found where there is no other
// agent whose it could be.
func TestGuardEndsWhatAForgottenExecLeft(t *testing.T) {
	m := newManager(t)
	p := start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 &"))
	finish(t, p)
	if err := m.Forget(p.id); err != nil {
		t.Fatal(err)
	}
	g := guard{log: m.log, fs: m.proc, processes: m.all}
	find := func(forgotten bool) *execTree {
		g.forgotten = func(id string) bool { return forgotten && id == p.id }
		trees, err := g.trees()
		if err != nil {
			t.Fatal(err)
		}
		return trees[p.id]
	}
	if left := find(false); left != nil {
		t.Errorf("beside other agents it is found: %+v", left)
	}
	left := find(true)
	if left == nil || left.process != nil || len(left.members) != 1 {
		t.Fatalf("found is %+v", left)
	}
	g.end(left)
	if left := find(true); left != nil {
		t.Errorf("it is still there: %+v", left)
	}
}

func TestProcessesAreTheKernelsFirstChoice(t *testing.T) {
	r := run(t, newManager(t), shell(t, "sleep 0.05; cat /proc/self/oom_score_adj"))
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	var agents, childs int
	fmt.Sscan(string(own), &agents)
	fmt.Sscan(r.stdout.String(), &childs)
	if childs != min(agents+childOOMScore, maxOOMScore) {
		t.Errorf("the agent's is %d, that of a process %q", agents, strings.TrimSpace(r.stdout.String()))
	}
}
