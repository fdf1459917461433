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
	for level, want := range map[confine.Level]string{confine.Off: "signals", confine.Auto: "2", confine.RequireDomain: "2"} {
		_, socket := serveTest(t, func(c *Config) { c.Confine = level })
		c := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
		info, err := c.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names := strings.Join(info.Confinement, " ")
		if all := "no-new-privileges syscall-filter landlock-domain signal-scope"; names != "" && level == confine.Off || names != all && level != confine.Off {
			t.Errorf("%s: Info names %q", level, names)
		}
		out, err := c.Shell(t.Context(), script).Output()
		if got := strings.Fields(string(out)); err != nil || got[len(got)-1] != want {
			t.Errorf("%s: a command finds %q, %v", level, got, err)
		}
	}
}
