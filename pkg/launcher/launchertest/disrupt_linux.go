package launchertest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/launcher"
)

// disruptTimeout bounds the restart of a component of the cluster.
const disruptTimeout = 2 * time.Minute

// OwnCluster returns a namespace in the cluster of "make cluster", whose node is this
// machine. From the node, the test may harm the agents of its own pods, which
// disturbs no other test. On another cluster the test is skipped.
func OwnCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skipf("%s names a cluster that tests must not harm", KubeconfigEnv)
	}
	c := NewCluster(t, profile)
	c.own = true
	return c
}

// DisruptedCluster is [OwnCluster] for tests that restart parts of the cluster. They
// disturb all other tests, so they must run alone.
func DisruptedCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	c := OwnCluster(t, profile)
	c.disrupted = true
	return c
}

// Restart restarts a component of a [DisruptedCluster], "apiserver" or "kubelet", and
// waits until it is ready again.
func (c *Cluster) Restart(t testing.TB, component string) {
	t.Helper()
	if !c.disrupted {
		t.Fatal("only parts of a DisruptedCluster may be restarted")
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), disruptTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", ".", "restart", "--dir", filepath.Dir(c.Kubeconfig), component)
	cmd.Dir = filepath.Join(root, "test", "cluster")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// KillAgent kills the agent of a pod of an [OwnCluster] from the node, which ends its
// container.
func (c *Cluster) KillAgent(t testing.TB, podUID string) {
	t.Helper()
	c.signalAgent(t, podUID, syscall.SIGKILL)
}

// KillAgents kills the agents of pods of an [OwnCluster] that have not ended meanwhile. It
// returns how many those were.
func (c *Cluster) KillAgents(t testing.TB, pods []corev1.Pod) (n int) {
	t.Helper()
	c.mayHarm(t)
	for _, pod := range pods {
		pid, err := agentOf(string(pod.UID))
		if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	return n
}

// FreezeAgent stops the agent of a pod of an [OwnCluster] from the node, so that it no
// longer answers.
func (c *Cluster) FreezeAgent(t testing.TB, podUID string) {
	t.Helper()
	Stop(t, c.AgentPID(t, podUID))
}

// Stop stops a process, and waits until none of its threads runs any more: some may go on after the signal is sent.
func Stop(t testing.TB, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); !isStopped(pid); time.Sleep(time.Millisecond) {
		if time.Since(begun) > disruptTimeout {
			t.Fatalf("process %d does not stop", pid)
		}
	}
}

// isStopped reports whether no thread of a process runs.
func isStopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		state := stat[bytes.LastIndexByte(stat, ')')+1:]
		if err == nil && !bytes.HasPrefix(state, []byte(" T")) {
			return false
		}
	}
	return len(threads) > 0
}

// DoomAgent makes the kernel kill the agent of a pod of an [OwnCluster] as readily as
// its commands when the pod runs out of memory. It freezes the agent, so that its
// guard does nothing then, and sets its oom_score_adj to 1000.
func (c *Cluster) DoomAgent(t testing.TB, podUID string) {
	t.Helper()
	c.FreezeAgent(t, podUID)
	pid, err := agentOf(podUID)
	if err == nil {
		err = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("1000"), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// AgentPID returns the process id that the agent of a pod of an [OwnCluster] has on the node.
func (c *Cluster) AgentPID(t testing.TB, podUID string) int {
	t.Helper()
	c.mayHarm(t)
	pid, err := agentOf(podUID)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func (c *Cluster) signalAgent(t testing.TB, podUID string, sig syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(c.AgentPID(t, podUID), sig); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) mayHarm(t testing.TB) {
	t.Helper()
	if !c.own {
		t.Fatal("only the agents of an OwnCluster may be harmed")
	}
}

// agentOf returns the process id of a pod's agent on this machine.
func agentOf(podUID string) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		// If they cannot be read, the process has just ended.
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.HasPrefix(command, []byte("podagent\x00serve\x00")) && bytes.Contains(env, []byte("PODAGENT_POD_UID="+podUID+"\x00")) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no agent of pod %s runs on this machine", podUID)
}
