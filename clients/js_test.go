package clients_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// The backend passes the cases of LangChain's standard tests, a graph of deepagents uses all
// of its tools, and the Claude Agent SDK runs its program in a sandbox.
func TestJavaScriptClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyInto(t, dir, "testdata/js")
	copyInto(t, filepath.Join(dir, "js"), "js")
	run(t, dir, os.Environ(), t.Output(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--omit=optional")
	if err := os.Symlink("../js", filepath.Join(dir, "node_modules", "podagent")); err != nil {
		t.Fatal(err)
	}
	tsc := filepath.Join(dir, "node_modules", "typescript", "bin", "tsc")
	run(t, filepath.Join(dir, "js"), os.Environ(), t.Output(), "node", tsc)
	run(t, dir, os.Environ(), t.Output(), "node", tsc)
	claude := contracts.Record(t, "claude-agent-sdk", "@anthropic-ai/claude-agent-sdk@0.3.330")
	seen := contracts.Record(t, "deepagents", "deepagents@1.14.1").Beside(claude)
	run(t, dir, serve(t), seen, "node", "out/main.js")
}
