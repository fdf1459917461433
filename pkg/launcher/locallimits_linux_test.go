//go:build linux && !race

package launcher_test

import (
	"context"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// A fork bomb of at most a thousand processes, which stay. It prints how many it could make: a shell that
// cannot fork exits.
const forkBomb = `exec 2>/dev/null
n=-1
trap 'echo $n; exit 0' EXIT
while [ $n -lt 1000 ]; do
	n=$((n+1))
	setsid sleep 1000 >/dev/null &
done`

// A memory hog that takes at most a gigabyte: tail keeps the last line, and there is only one.
const memoryHog = `head -c 1073741824 /dev/zero | tail -n 1 >/dev/null && echo took all`

// busyLoops are two of two seconds. It prints the time of processors that the shell has taken, and then what they have.
const busyLoops = `for i in 1 2; do timeout 2 sh -c 'while :; do :; done' & done
wait
times`

// hungMachine is how long a virtual machine runs at most: minutes if it emulates the processor and shares it.
const hungMachine = 8 * time.Minute

// machineEnded is what init.sh of test/machine prints when the tests have ended, as they may.
const machineEnded = "the tests exit with "

func limits(processes, memory string) corev1.ResourceList {
	list := corev1.ResourceList{launcher.ResourceProcesses: resource.MustParse(processes)}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// checkBomb checks that a fork bomb came to something below a limit of 200.
func checkBomb(t *testing.T, output string) {
	t.Helper()
	if n, err := strconv.Atoi(strings.TrimSpace(output)); err != nil || n < 100 || n >= 200 {
		t.Errorf("the fork bomb says %q, of 200", output)
	}
}

// The kernel counts processes by user namespace, and gives root a bound of another kind.
func TestRlimitsHoldAForkBombInNamespaces(t *testing.T) {
	t.Run("an ordinary user", func(t *testing.T) {
		t.Parallel()
		e := errand{Dir: stage(t), UID: ordinaryUser, Mode: isolation.Mode(isolation.Namespaces), Limits: limits("200", ""), Scripts: []string{forkBomb, "echo serves"}}
		e.run(t)
		checkBomb(t, e.outputs[0])
		if e.errs[1] != nil || e.outputs[1] != "serves\n" {
			t.Errorf("afterwards, a command printed %q, %v", e.outputs[1], e.errs[1])
		}
	})
	t.Run("root", func(t *testing.T) {
		t.Parallel()
		l := launchertest.Local(t)
		l.Isolation, l.Limits = isolation.Mode(isolation.Namespaces), limits("200", "")
		s := launch(t, l, launcher.Spec{ID: "a"})
		other := launch(t, l, launcher.Spec{ID: "b"})
		if s.Isolation.Limiter == isolation.NoLimiter {
			t.Errorf("it is limited by %+v", s.Isolation)
		}
		checkBomb(t, output(t, s, forkBomb))
		if err := s.WriteFile(t.Context(), "f", []byte("x"), 0o600); err != nil {
			t.Errorf("writing a file: %v", err)
		}
		if got := output(t, other, "echo serves"); got != "serves" {
			t.Errorf("in another sandbox a command printed %q", got)
		}
	})
}

// An ordinary user may make no control group beside that of the test, so nothing keeps these limits.
func TestNamedLimitThatNothingKeepsIsRefused(t *testing.T) {
	for _, c := range []struct {
		name     corev1.ResourceName
		quantity string
		level    isolation.Level
		refused  string
	}{
		{corev1.ResourceMemory, "128Mi", isolation.Namespaces, "nothing can limit its memory"},
		{corev1.ResourceCPU, "1", isolation.Namespaces, "nothing can limit its cpu"},
		{launcher.ResourceProcesses, "200", isolation.Landlock, "the limit of 200 processes"}, // those of the user outside count, too
	} {
		t.Run(string(c.name), func(t *testing.T) {
			t.Parallel()
			e := errand{
				Dir: stage(t), UID: ordinaryUser, Mode: isolation.Mode(c.level), Refused: c.refused,
				Limits: corev1.ResourceList{c.name: resource.MustParse(c.quantity)},
			}
			e.start(t)()
			if left, err := filepath.Glob(filepath.Join(e.Dir, "state", "*", "agent.sock")); err != nil || len(left) > 0 {
				t.Errorf("left are %q, %v", left, err)
			}
		})
	}
}

// groupsOf returns the directory of version 2 of control groups, and whether it has the controllers of
// processes and memory.
func groupsOf(t *testing.T) (dir string, controllers bool) {
	t.Helper()
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers")); err == nil {
			has := strings.Fields(string(text))
			return dir, containsAll(has, "pids", "memory")
		}
	}
	return "", false
}

func containsAll(list []string, words ...string) bool {
	for _, w := range words {
		if !strings.Contains(" "+strings.Join(list, " ")+" ", " "+w+" ") {
			return false
		}
	}
	return true
}

// delegate makes a control group, gives it to a user, and returns the one in it for a process of that user.
func delegate(t *testing.T, dir string, uid int) string {
	t.Helper()
	mine := filepath.Join(dir, "podagent-test-"+strings.ToLower(rand.Text()))
	inner := filepath.Join(mine, "session")
	_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+pids +memory"), 0)
	for _, dir := range []string{mine, inner} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				t.Errorf("a control group is left: %v", err)
			}
		})
		for _, name := range []string{"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"} {
			if err := os.Chown(filepath.Join(dir, name), uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	return inner
}

// runInMachine runs a test in a virtual machine whose Linux has all controllers in version 2 of control groups. A machine
// that goes down before the tests have ended shows nothing of them. Then another one runs them.
func runInMachine(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), hungMachine)
	defer cancel()
	for try := 1; ; try++ {
		out, err := exec.CommandContext(ctx, "../../test/machine/run.sh", "../../.cluster/machine/vmlinuz", t.TempDir(), os.Args[0],
			launchertest.Local(t).Agent, "-test.v", "-test.run=^"+t.Name()+"$", "-test.timeout="+hungMachine.String()).CombinedOutput()
		said := string(out)
		if err == nil && try == 1 && !strings.Contains(said, machineEnded) {
			t.Logf("the virtual machine went down: %s", said)
			continue
		}
		if err != nil || !strings.Contains(said, "--- PASS: "+t.Name()+" (") || strings.Contains(said, "--- SKIP") {
			t.Errorf("in a virtual machine (\"make needs\" gets what that needs): %v\n%s", err, said)
		}
		return
	}
}

// An ordinary user gets a control group from the system, as a session has it. Root may make groups anyway.
func TestCgroupHoldsAForkBombAndAMemoryHog(t *testing.T) {
	dir, controllers := groupsOf(t)
	if !controllers {
		runInMachine(t)
		return
	}
	t.Run("an ordinary user", func(t *testing.T) {
		for _, level := range []isolation.Level{isolation.Namespaces, isolation.Landlock} {
			t.Run(string(level), func(t *testing.T) {
				e := errand{
					Dir: stage(t), UID: ordinaryUser, Mode: isolation.Mode(level), Limits: limits("200", "128Mi"), Group: delegate(t, dir, ordinaryUser),
					Scripts: []string{memoryHog, "echo serves", forkBomb},
				}
				e.run(t)
				if e.errs[0] == nil {
					t.Errorf("the memory hog %q", e.outputs[0])
				}
				if e.errs[1] != nil || e.outputs[1] != "serves\n" {
					t.Errorf("afterwards, a command printed %q, %v", e.outputs[1], e.errs[1])
				}
				checkBomb(t, e.outputs[2])
			})
		}
	})
	t.Run("half a processor", holdsBusyLoops)
	t.Run("root", func(t *testing.T) {
		eachIsolation(t, func(t *testing.T, l *launcher.Local) {
			l.Limits = limits("200", "128Mi")
			s := launch(t, l, launcher.Spec{ID: "a"})
			other := launch(t, l, launcher.Spec{ID: "b"})
			if s.Isolation.Limiter != isolation.ControlGroup {
				t.Fatalf("it is limited by %+v", s.Isolation)
			}
			if out, err := s.Command(t.Context(), "sh", "-c", memoryHog).Output(); err == nil {
				t.Errorf("the memory hog %q", out)
			}
			if got := output(t, s, "echo serves"); got != "serves" {
				t.Errorf("afterwards, a command printed %q", got)
			}
			checkBomb(t, output(t, s, forkBomb))
			if err := s.WriteFile(t.Context(), "f", []byte("x"), 0o600); err != nil {
				t.Errorf("writing a file: %v", err)
			}
			if got := output(t, other, "echo serves"); got != "serves" {
				t.Errorf("in another sandbox a command printed %q", got)
			}
		})
	})
}

// holdsBusyLoops checks that a sandbox with half a processor takes about that, and not the two that it could use.
func holdsBusyLoops(t *testing.T) {
	l := launchertest.Local(t)
	l.Isolation, l.Limits = isolation.Require, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")}
	s := launch(t, l, launcher.Spec{ID: "a"})
	for end := time.Now().Add(hung); ; { // others may take the machine for a while
		share := takenByBusyLoops(t, s)
		if share > 0.8 || share < 0.2 && time.Now().After(end) {
			t.Fatalf("they took %.2f of a processor", share)
		}
		if share >= 0.2 {
			return
		}
	}
}

// takenByBusyLoops returns how many processors they take.
func takenByBusyLoops(t *testing.T, s *launcher.Sandbox) float64 {
	t.Helper()
	start := time.Now()
	printed := output(t, s, busyLoops)
	took := time.Since(start)
	var used time.Duration
	for _, text := range strings.Fields(printed)[2:] { // the shell's own come first
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		used += d
	}
	t.Logf("they took %v of processors in %v", used, took)
	return used.Seconds() / took.Seconds()
}
