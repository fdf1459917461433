package main

import (
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/internal/gittest"
)

// Isolated sandboxes have no way out. Up and mcp lend their checkout one, to its server alone, and only for
// as long as it takes.
func TestACheckoutReachesItsServerFromAnIsolatedSandbox(t *testing.T) {
	server := httptest.NewUnstartedServer(gittest.Handler(t, gittest.Repository(t, "content\n")))
	listener, err := net.Listen("tcp", net.JoinHostPort(addressOfThisMachine(t), "0")) // connections to the loopback stay in the sandbox
	if err != nil {
		t.Fatal(err)
	}
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	repository := server.URL + "/r.git"

	c := newCLI(t)
	for _, level := range []string{"namespaces", "landlock"} {
		t.Run(level, func(t *testing.T) {
			c.run(nil, io.Discard, "up", level, "--isolation", level, "--git", repository)
			defer c.run(nil, io.Discard, "down", level)
			var file, out strings.Builder
			if c.run(nil, &file, "cat", level, "file"); file.String() != "content\n" {
				t.Errorf("the checkout has %q", file.String())
			}
			c.run(nil, &out, "exec", level, "--", "sh", "-c", "git fetch 2>&1 && echo fetched; true")
			if !strings.Contains(out.String(), "503") || strings.Contains(out.String(), "fetched") {
				t.Errorf("after the launch, git fetch says %q", out.String())
			}
		})
	}
	t.Run("mcp", func(t *testing.T) {
		client := c.mcpOverStdio("--isolation", "namespaces", "--git", repository).client(t, nil)
		if text, _ := callMCP(t, client, "Bash", map[string]any{"command": "cat file; git fetch"}); !strings.Contains(text, "content\n") || !strings.Contains(text, "503") {
			t.Errorf("a command says %q", text)
		}
	})
}

// addressOfThisMachine returns an address of this machine that is not the loopback's.
func addressOfThisMachine(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range all {
		if own, ok := addr.(*net.IPNet); ok && own.IP.IsGlobalUnicast() && own.IP.To4() != nil {
			return own.IP.String()
		}
	}
	t.Fatal("this test needs an address besides the loopback's")
	return ""
}
