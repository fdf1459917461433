package agent

import (
	"strings"
	"testing"

	"github.com/podagent/podagent/cmd/podagent/internal/confine"
	"github.com/podagent/podagent/pkg/podapi"
)

// What Info says of the boundary is what a command finds.
func TestInfoSaysWhatConfinesCommands(t *testing.T) {
	const script = `grep -c -E '^(NoNewPrivs:.1|Seccomp:.2)$' /proc/self/status; kill -0 $PPID && echo signals; true`
	for _, level := range []confine.Level{confine.Auto, confine.RequireDomain, confine.Off} {
		want := map[bool]string{true: "signals", false: "2"}[level == confine.Off]
		_, socket := serveTest(t, func(c *Config) { c.Confine = level })
		c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Join(info.Confinement, " ")
		if level == confine.Auto && !strings.Contains(names, "signal-scope") {
			t.Fatal("this needs a kernel with Landlock's scopes")
		}
		if all := "no-new-privileges syscall-filter landlock-domain signal-scope"; names != "" && level == confine.Off || names != all && level != confine.Off {
			t.Errorf("%s: Info names %q", level, names)
		}
		out, err := c.Shell(t.Context(), script).Output()
		if got := strings.Fields(string(out)); err != nil || got[len(got)-1] != want {
			t.Errorf("%s: a command finds %q, %v", level, got, err)
		}
	}
}
