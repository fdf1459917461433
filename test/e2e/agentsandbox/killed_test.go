package agentsandbox

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/agentsandbox"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// An orchestrator may be killed at any time.
func TestSandboxIsAdoptedAfterItsOrchestratorWasKilled(t *testing.T) {
	inEachMode(t, func(t *testing.T, l *agentsandbox.Launcher, c *launchertest.Cluster, spec launcher.Spec) {
		killAfterFirstLine(t, c, harness.ProgramFile(t, "cmd/orchestrator"), spec)
		s := harness.Launch(t, l, spec)
		if got := harness.Get(t, s, "file"); got != "content\n" || s.Created {
			t.Errorf("the sandbox has %q, created: %v", got, s.Created)
		}
	})
}

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
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
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
