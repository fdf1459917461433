package e2e

// A client in another language that is generated from the gateway's document
// (testdata/gatewayclient) calls every operation.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tokens of two tenants.
const (
	gatewayToken  = "the-token-of-acme-for-tests"
	gatewayToken2 = "the-token-of-other-for-tests"
)

func TestGeneratedClientCallsEveryOperationOnPods(t *testing.T) {
	t.Parallel()
	client := generateGatewayClient(t)
	c := launchertest.NewCluster(t, launcher.Restricted)
	cmd := exec.Command(harness.ProgramFile(t, "cmd/orchestrator"), "gateway", "--listen", "127.0.0.1:0", "--keys", gatewayKeys(t), "--workspace-size", "1Gi", "--domain", "sandboxes.test")
	if class := c.Storage(t, 1); class != "" {
		cmd.Args = append(cmd.Args, "--storage-class", class)
	}
	cmd.Env = append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	run(t, client, "node", "client.js", serve(t, cmd), gatewayToken, gatewayToken2)
	awaitNoSandbox(t, c)
}

// generateGatewayClient returns the directory of the client, which is generated from
// the document, and type-checked against it.
func generateGatewayClient(t *testing.T) string {
	t.Helper()
	dir := installNode(t, "testdata/gatewayclient")
	doc, err := os.ReadFile("../../pkg/gateway/openapi.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "openapi.json"), doc, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, "node", "generate.mjs")
	run(t, dir, "node", "node_modules/typescript/bin/tsc")
	return dir
}

func run(t *testing.T, dir string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// gatewayKeys writes the keys of two tenants, and returns their path.
func gatewayKeys(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    max: {cpu: \"1\", lifetime: 2h}\n    keys:\n    - sha256: %x\n  other:\n    keys:\n    - sha256: %x\n",
		sha256.Sum256([]byte(gatewayToken)), sha256.Sum256([]byte(gatewayToken2)))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
