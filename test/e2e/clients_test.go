package e2e

// The clients of the repository (clients/js and clients/python) work in pods by way of a gateway.

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestClientsOfTheRepositoryWorkInPods(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	cmd := exec.Command(harness.ProgramFile(t, "cmd/orchestrator"), "gateway", "--listen", "127.0.0.1:0", "--keys", gatewayKeys(t), "--requests", "cpu=20m,memory=32Mi")
	cmd.Env = append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	env := append(os.Environ(), "PODAGENT_GATEWAY="+serve(t, cmd), "PODAGENT_GATEWAY_TOKEN="+gatewayToken)
	t.Run("clients", func(t *testing.T) {
		t.Run("JavaScript", func(t *testing.T) {
			t.Parallel()
			walkPackage(t, env)
		})
		t.Run("Python", func(t *testing.T) {
			t.Parallel()
			client, err := filepath.Abs("../../clients/python")
			if err != nil {
				t.Fatal(err)
			}
			walkClient(t, "../../clients/testdata/python", append(env, "PYTHONPATH="+client), "python3", "-B", "-m", "unittest", "standard")
		})
	})
	awaitNoSandbox(t, c)
}

// walkPackage builds the package for npm, and walks it as a program that has it.
func walkPackage(t *testing.T, env []string) {
	dir := installNode(t, "../../clients/js")
	run(t, dir, "npm", "run", "build")
	program, err := os.ReadFile("testdata/jsclient/walk.mjs")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "walk.mjs"), program, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	walkClient(t, dir, env, "node", "walk.mjs")
}

func walkClient(t *testing.T, dir string, env []string, args ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
