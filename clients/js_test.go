package clients_test

import (
	"os"
	"path/filepath"
	"testing"
)

// The backend passes the cases of LangChain's standard tests, a graph of deepagents uses all
// of its tools, and the Claude Agent SDK runs its program in a sandbox.
func TestJavaScriptClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	copyInto(t, dir, "testdata/js")
	copyInto(t, filepath.Join(dir, "js"), "js")
	run(t, dir, os.Environ(), "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--omit=optional")
	if err := os.Symlink("../js", filepath.Join(dir, "node_modules", "podagent")); err != nil {
		t.Fatal(err)
	}
	tsc := filepath.Join(dir, "node_modules", "typescript", "bin", "tsc")
	run(t, filepath.Join(dir, "js"), os.Environ(), "node", tsc)
	run(t, dir, os.Environ(), "node", tsc)
	run(t, dir, serve(t), "node", "out/main.js")
}
