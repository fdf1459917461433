package e2e

// E2B's SDK for JavaScript, unmodified (testdata/e2bclient), works in pods by way of a gateway.

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
	"github.com/podagent/podagent/test/contracts"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The keys of two tenants, in the form that all versions of the SDK take.
const (
	e2bKey      = "e2b_00112233445566778899aabbccddeeff"
	e2bOtherKey = "e2b_ffeeddccbbaa99887766554433221100"
)

func TestE2BsClientsWorkInPods(t *testing.T) {
	t.Parallel()
	client := installNode(t, "testdata/e2bclient")
	c := launchertest.NewCluster(t, launcher.Restricted)
	url := serveE2B(t, c, 4)
	if err := os.WriteFile(filepath.Join(client, "server"), harness.BuildProgram(t, "test/e2e/testdata/server"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("versions", func(t *testing.T) {
		for _, version := range []string{"2.14.1", "2.51.0"} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				walkE2B(t, client, url, version)
			})
		}
	})
	awaitNoSandbox(t, c)
}

// serveE2B starts a gateway for E2B's clients, of which so many sandboxes keep their files at a time, and
// returns its URL.
func serveE2B(t *testing.T, c *launchertest.Cluster, kept int) string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme: {keys: [{sha256: %x}]}\n  other: {keys: [{sha256: %x}]}\n", sha256.Sum256([]byte(e2bKey)), sha256.Sum256([]byte(e2bOtherKey)))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.ProgramFile(t, "cmd/orchestrator"), "gateway", "--listen", "127.0.0.1:0", "--keys", keys, "--domain", "sandboxes.test", "--e2b", "--e2b-templates", "named=image:"+c.Image, "--requests", "cpu=20m,memory=32Mi", "--workspace-size", "1Gi")
	if class := c.Storage(t, kept); class != "" {
		cmd.Args = append(cmd.Args, "--storage-class", class)
	}
	cmd.Env = append(os.Environ(), "PODAGENT_BACKEND=kubernetes", "KUBECONFIG="+c.WriteKubeconfig(t), "PODAGENT_IMAGE="+c.Image, "XDG_CONFIG_HOME="+t.TempDir())
	return serve(t, cmd)
}

// walkE2B walks a version of the SDK by environment variables alone.
func walkE2B(t *testing.T, client, url, version string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", version, "server")
	cmd.Dir = client
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+e2bKey, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "OTHER_KEY="+e2bOtherKey, "PODS=true")
	cmd.Stdout, cmd.Stderr = contracts.Record(t, "e2b", "e2b@"+version), t.Output()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
}
