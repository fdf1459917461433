package e2e

// OpenAI's agents SDK with its provider for E2B, both unmodified (testdata/agentsclient), works in
// pods by way of a gateway.

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/contracts"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestOpenAIsAgentsWorkInPods(t *testing.T) {
	t.Parallel()
	client := installNode(t, "testdata/agentsclient")
	c := launchertest.NewCluster(t, launcher.Restricted)
	url := serveE2B(t, c, 1, 0, "--own-workspace")
	if err := os.WriteFile(filepath.Join(client, "server"), harness.BuildProgram(t, "test/e2e/testdata/server"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", "server")
	cmd.Dir = client
	cmd.Env = append(os.Environ(), "E2B_API_KEY="+e2bKey, "E2B_API_URL="+url, "E2B_SANDBOX_URL="+url, "PODS=true")
	cmd.Stdout, cmd.Stderr = contracts.Record(t, "openai-agents", "@openai/agents-extensions@0.18.0"), t.Output()
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	awaitNoSandbox(t, c)
}
