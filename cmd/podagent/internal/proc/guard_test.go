package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc/cgroup"
)

// fakeGroups makes a file system with a version 2 control group that is limited to
// a gibibyte. use sets how much of it is used by files and by memory that cannot be
// reclaimed.
func fakeGroups(t *testing.T) (groups *cgroup.Groups, use func(file, anon int64)) {
	t.Helper()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	use = func(file, anon int64) {
		t.Helper()
		write("group/memory.current", fmt.Sprintln(file+anon))
		write("group/memory.stat", fmt.Sprintf("anon %d\nfile %d\n", anon, file))
	}
	write("proc/self/cgroup", "0::/\n")
	write("proc/self/mountinfo", "35 31 0:32 / /group ro,nosuid - cgroup2 cgroup rw,nsdelegate\n")
	write("group/memory.max", "1073741824\n")
	use(0, 0)
	groups = cgroup.Open(root)
	t.Cleanup(groups.Close)
	return groups, use
}

func TestGuardLooksMoreOftenNearTheLimit(t *testing.T) {
	groups, use := fakeGroups(t)
	g := &guard{groups: groups.Memory}
	var last time.Duration
	for i, c := range []struct{ file, anon int64 }{{0, 950 << 20}, {50 << 20, 900 << 20}, {0, 512 << 20}, {1000 << 20, 10 << 20}, {0, 0}} {
		use(c.file, c.anon)
		next := g.look()
		if next < last || next < guardOften || next > guardRarely {
			t.Errorf("%d: the guard looks again in %v, after %v", i, next, last)
		}
		last = next
	}
}

// The version 2 memory group is a fake; the processes are real.
func TestGuardEndsTheLargestExec(t *testing.T) {
	groups, use := fakeGroups(t)
	m := newManager(t)
	hog := start(t, m, shell(t, `(head -c 40000000 /dev/zero; exec sleep 300) | tail -c 50000000 & sleep 300`))
	other := start(t, m, shell(t, "exec sleep 300"))
	ended := start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 &"))
	finish(t, ended)
	m.guard.groups = groups.Memory
	eventually(t, "a large exec", func() bool {
		trees, err := m.guard.trees()
		if err != nil {
			t.Fatal(err)
		}
		return len(trees) == 3 && trees[hog.id].size > 40000000
	})
	use(0, 1<<30-guardMaximum+1)
	// All execs together use less than the memory that must stay free, so ending
	// one would not help.
	if next := m.guard.look(); next != guardPause || !hog.running() {
		t.Errorf("the guard looks again in %v; running: %v", next, hog.running())
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
		t.Errorf("the survivor of an exec: %v", err)
	}
}

// Only an agent that adopts orphans knows that what a forgotten exec left is its own.
func TestGuardEndsWhatAForgottenExecLeft(t *testing.T) {
	m := newManager(t)
	p := start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 & echo $!"))
	left, err := strconv.Atoi(strings.TrimSpace(finish(t, p).stdout.String()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(left, syscall.SIGKILL)
	if err := m.Forget(p.id); err != nil {
		t.Fatal(err)
	}
	find := func(m *Manager) *execTree {
		trees, err := m.guard.trees()
		if err != nil {
			t.Fatal(err)
		}
		return trees[""]
	}
	if left := find(m); left != nil {
		t.Errorf("it is found although there may be other agents: %+v", left)
	}
	m = newAdopter(t)
	p = start(t, m, shell(t, "setsid sleep 300 > /dev/null 2>&1 &"))
	finish(t, p)
	if err := m.Forget(p.id); err != nil {
		t.Fatal(err)
	}
	strays := find(m)
	if strays == nil || strays.process != nil || len(strays.members) != 1 {
		t.Fatalf("found is %+v", strays)
	}
	m.guard.killTree(strays)
	if left := find(m); left != nil {
		t.Errorf("it is still there: %+v", left)
	}
}

func TestProcessesAreTheKernelsFirstChoice(t *testing.T) {
	gate := fifo(t)
	p := start(t, newManager(t), shell(t, "read -r line < "+gate+"; cat /proc/self/oom_score_adj"))
	send(t, gate) // the agent has set the score once the process is started
	r := finish(t, p)
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		t.Fatal(err)
	}
	var agents, childs int
	fmt.Sscan(string(own), &agents)
	fmt.Sscan(r.stdout.String(), &childs)
	if childs != min(agents+childOOMScore, maxOOMScore) {
		t.Errorf("the agent has %d, a process %q", agents, strings.TrimSpace(r.stdout.String()))
	}
}
