package launchertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
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

// DisruptedCluster returns a namespace in the cluster of "make cluster", which
// this test alone has for its time, in this and other programs: it may restart
// parts of it, and kill agents from the node. With another cluster the test is
// skipped, for nobody may do that there.
func DisruptedCluster(t testing.TB, profile launcher.Profile) *Cluster {
	t.Helper()
	if os.Getenv(KubeconfigEnv) != "" {
		t.Skipf("%s names a cluster that is not the tests' own", KubeconfigEnv)
	}
	share(t, syscall.LOCK_EX)
	return prepare(t, profile)
}

// Restart restarts a component of the cluster: "apiserver" or "kubelet". It
// returns when it is back.
func (c *Cluster) Restart(t testing.TB, component string) {
	t.Helper()
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

// KillAgent ends the agent of a pod with KILL, from the node, and so its
// container.
func (c *Cluster) KillAgent(t testing.TB, podUID string) {
	t.Helper()
	signalAgent(t, podUID, syscall.SIGKILL)
}

// FreezeAgent stops the agent of a pod, from the node: it does not answer any more.
func (c *Cluster) FreezeAgent(t testing.TB, podUID string) {
	t.Helper()
	signalAgent(t, podUID, syscall.SIGSTOP)
}

// DoomAgent has the kernel take the agent of a pod for as good to kill as its
// commands, if the pod's memory runs out, and its guard do nothing about that
// before.
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

func signalAgent(t testing.TB, podUID string, sig syscall.Signal) {
	t.Helper()
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

// share locks the cluster for the test's time, against those of other
// programs, too.
func share(t testing.TB, how int) {
	t.Helper()
	kubeconfig, err := kubeconfigPath()
	if err != nil {
		t.Fatal(err)
	}
	if real, err := filepath.EvalSymlinks(kubeconfig); err == nil {
		kubeconfig = real
	}
	name := fmt.Sprintf("podagent-test-%x.lock", sha256.Sum256([]byte(kubeconfig)))
	f, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDONLY, 0o600)
	if err == nil {
		for {
			if err = syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
}
