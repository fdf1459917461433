package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The pod of a session of the Model Context Protocol ends itself, whatever becomes of gateways.
func TestGatewaySessionHasAPodThatEndsByItself(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	g := gateway.New(gateway.Options{Launcher: c.Launcher(), Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Base: c.Spec("")})
	defer g.Close()
	server := httptest.NewServer(g)
	defer server.Close()
	send := func(method, session, body string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer a")
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer, string(text)
	}
	begun, _ := send("POST", "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	session := begun.Header.Get("Mcp-Session-Id")
	if _, text := send("POST", session, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"echo $((6*7))"}}}`); !strings.Contains(text, `"42\n"`) {
		t.Errorf("the answer is %s", text)
	}
	all, err := c.Launcher().List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("there are %v, %v", all, err)
	}
	open, err := c.Launcher().Open(t.Context(), all[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if info, err := open.Info(t.Context()); err != nil || info.IdleTimeout.Hours() != 1 {
		t.Errorf("it ends when it is idle for %v, %v", info.IdleTimeout, err)
	}
	if ended, text := send("DELETE", session, ""); ended.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %d %s", ended.StatusCode, text)
	}
	if all, err := c.Launcher().List(t.Context()); err != nil || len(all) > 0 && all[0].State != launcher.Terminating {
		t.Errorf("at the end there are %v, %v", all, err)
	}
}
