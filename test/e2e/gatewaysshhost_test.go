package e2e

// Programs of this machine use a pod at the gateway's port of SSH, where they need a key.

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// What editors do to connect: they find out about the platform, copy a server that lives on, reach it by -D and by
// single ports, and find it again after a cut.
func TestEditorsConnectToAPodAtTheGatewaysPort(t *testing.T) {
	t.Parallel()
	h := gatewaySSHHost(t, launchertest.ProgramsImage)
	server := harness.ProgramFile(t, "test/e2e/testdata/server")
	scripts, err := filepath.Glob("../../cmd/orchestrator/testdata/editors/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, script := range scripts {
		script, err := filepath.Abs(script)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(script), ".sh"), func(t *testing.T) {
			editor := h.command(t.Context(), "timeout", "600", "bash", script, h.config, "a.podagent", server) // it ends all that bash has started
			editor.Dir = t.TempDir()
			if out, err := editor.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// An image of one program has sftp, scp, and commands of plain words, which need nothing in it.
func TestAnImageWithoutAShellAtTheGatewaysPort(t *testing.T) {
	t.Parallel()
	h := gatewaySSHHost(t, "podagent.test/scratch:dev")
	if got := h.run(t, "ssh", "-F", h.config, "a.podagent", "/alone echo a b"); got != "a b\n" {
		t.Errorf("a plain command: %q", got)
	}
	dir := t.TempDir()
	file, back := filepath.Join(dir, "file"), filepath.Join(dir, "back")
	if err := os.WriteFile(file, []byte("by scp"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, "scp", "-q", "-F", h.config, file, "a.podagent:first")
	batch := h.command(t.Context(), "sftp", "-q", "-b", "-", "-F", h.config, "a.podagent")
	batch.Stdin = strings.NewReader("rename first renamed\nchmod 640 renamed\nmkdir dir\nls -la\n")
	outputOf(t, batch)
	h.run(t, "scp", "-q", "-F", h.config, "a.podagent:renamed", back)
	if got, err := os.ReadFile(back); err != nil || string(got) != "by scp" {
		t.Errorf("the file came back as %q, %v", got, err)
	}
	for name, want := range map[string]string{
		"ssh": "the sandbox has no shell: give a command of plain words",
		"scp": "scp -O needs scp in the sandbox; without -O",
	} {
		args := map[string][]string{
			"ssh": {"-F", h.config, "a.podagent", "/alone echo $HOME"},
			"scp": {"-q", "-O", "-F", h.config, file, "a.podagent:old"},
		}[name]
		out, err := h.command(t.Context(), name, args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, and said %q", name, err, out)
		}
	}
}
