package agentsandbox

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// OpenSSH's programs reach a sandbox that agent-sandbox's controller has made, with a host key that follows from
// the identity.
func TestSSHToASandbox(t *testing.T) {
	t.Parallel()
	c, dir := withController(t), t.TempDir()
	program, config := harness.ProgramFile(t, "cmd/orchestrator"), filepath.Join(dir, "ssh_config")
	env := append(os.Environ(), "PODAGENT_BACKEND=agent-sandbox", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image,
		"XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"))
	run := func(name string, args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), harness.Hung)
		defer cancel()
		var stderr strings.Builder
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Env, cmd.Stderr = env, &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v: %s", cmd, err, &stderr)
		}
		return string(out)
	}
	run(program, "up", "a", "--requests", "cpu=10m,memory=32Mi")
	t.Cleanup(func() { run(program, "down", "a") })
	if err := os.WriteFile(config, []byte(run(program, "ssh-config")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run("ssh", "-F", config, "a.podagent", "echo $((6*7)); pwd"); got != "42\n/workspace\n" {
		t.Errorf("a command: %q", got)
	}
	file, back := filepath.Join(dir, "file"), filepath.Join(dir, "back")
	if err := os.WriteFile(file, []byte("by scp"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("scp", "-q", "-F", config, file, "a.podagent:file")
	run("scp", "-q", "-F", config, "a.podagent:file", back)
	if got, err := os.ReadFile(back); err != nil || string(got) != "by scp" {
		t.Errorf("the file came back as %q, %v", got, err)
	}
}
