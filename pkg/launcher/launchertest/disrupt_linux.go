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

	"github.com/podagent/podagent/pkg/launcher"
)

// disruptTimeout bounds the restart of a component of the cluster.
const disruptTimeout = 2 * time.Minute

// OwnCluster returns a namespace in the cluster of "make cluster", whose node is
// this machine: the test may harm the agents of its own pods from the node, which
// nobody else notices. With another cluster the test is skipped, for nobody may
// do that there.
func OwnCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skipf("%s names a cluster that is not the tests' own", KubeconfigEnv)
	}
	c := NewCluster(t, profile)
	c.own = true
	return c
}

// DisruptedCluster is [OwnCluster] for tests that restart parts of the cluster.
// They disturb everybody on it, so they run while nothing else does.
func DisruptedCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	c := OwnCluster(t, profile)
	c.disrupted = true
	return c
}

// Restart restarts a component of a [DisruptedCluster]: "apiserver" or "kubelet".
// It returns when it is back.
func (c *Cluster) Restart(t testing.TB, component string) {
	t.Helper()
	if !c.disrupted {
		t.Fatal("only a DisruptedCluster is restarted")
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

// KillAgent ends the agent of a pod of an [OwnCluster] with KILL, from the node,
// and so its container.
func (c *Cluster) KillAgent(t testing.TB, podUID string) {
	t.Helper()
	c.signalAgent(t, podUID, syscall.SIGKILL)
}

// FreezeAgent stops the agent of a pod of an [OwnCluster], from the node: it does
// not answer any more.
func (c *Cluster) FreezeAgent(t testing.TB, podUID string) {
	t.Helper()
	c.signalAgent(t, podUID, syscall.SIGSTOP)
}

// DoomAgent freezes the agent of a pod of an [OwnCluster], so that its guard does
// nothing when the pod's memory runs out, and then gives it an oom_score_adj of
// 1000, with which the kernel kills it as readily as its commands.
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

func (c *Cluster) signalAgent(t testing.TB, podUID string, sig syscall.Signal) {
	t.Helper()
	if !c.own {
		t.Fatal("only the agents of an OwnCluster are harmed")
	}
	pid, err := agentOf(podUID)
	if err == nil {
		err = syscall.Kill(pid, sig)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// agentOf returns the process id, on this machine, of a pod's agent.
func agentOf(podUID string) (int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, dir := range dirs {
		// What cannot be read has just ended.
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if bytes.HasPrefix(command, []byte("podagent\x00serve\x00")) && bytes.Contains(env, []byte("PODAGENT_POD_UID="+podUID+"\x00")) {
			return strconv.Atoi(filepath.Base(dir))
		}
	}
	return 0, fmt.Errorf("no agent of pod %s runs on this machine", podUID)
}
