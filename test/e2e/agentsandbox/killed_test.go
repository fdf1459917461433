package agentsandbox

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// killAfterFirstLine runs an orchestrator that makes the sandbox and runs a command in it, and
// kills it in the middle of that.
func killAfterFirstLine(t *testing.T, c *launchertest.Cluster, program string, spec launcher.Spec) {
	t.Helper()
	identity := filepath.Join(t.TempDir(), "identity.pem")
	text, err := c.Identity.MarshalPEM()
	if err == nil {
		err = os.WriteFile(identity, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"run", "--id", spec.ID, "--backend", "agent-sandbox", "--kubeconfig", c.WriteKubeconfig(t), "--identity", identity,
		"--image", spec.Pod.Image, "--", "sh", "-c", "echo content >file; echo ready; exec sleep 1000",
	}
	if spec.Take.Pool != "" {
		args = append([]string{args[0], "--pool", spec.Take.Pool}, args[1:]...)
	}
	cmd := exec.Command(program, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if killErr := cmd.Process.Kill(); killErr != nil {
		t.Error(killErr)
	}
	_ = cmd.Wait() // by the signal
	if line != "ready\n" {
		t.Fatalf("the command says %q: %v", line, err)
	}
}
