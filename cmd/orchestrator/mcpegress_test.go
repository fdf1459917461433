//go:build linux

package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
)

// servesTheWayOut checks that what a client's commands reach is what the flags allow, and
// nothing after the server's end.
func (t mcpTest) servesTheWayOut() {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello from "+r.Host) }))
	t.Cleanup(web.Close)
	_, port, _ := net.SplitHostPort(web.Listener.Addr().String())
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("the-value-of-the-token"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := t.serve("--allow-host", "app.test=127.0.0.1:"+port, "--allow-host", "*.example:*", "--credential", "APP_TOKEN=file:"+token+"@app.test")
	client := s.client(t.T, nil)
	text, _ := callMCP(t.T, client, "Bash", map[string]any{"command": "curl -sS http://app.test:" + port + " http://other.test"})
	for _, want := range []string{"hello from app.test", "Egress denied: no rule allows other.test."} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	// A model sees the placeholder, and never the value, wherever that comes from.
	text, _ = callMCP(t.T, client, "Bash", map[string]any{"command": "echo $APP_TOKEN; printf %s%s the-value- of-the-token"})
	if !strings.HasPrefix(text, "podagent-secret-APP_TOKEN-") || !strings.Contains(text, "\n[REDACTED:APP_TOKEN]") {
		t.Error(text)
	}
}

// A client's sandbox that another program serves is under the rules of that one.
func (t mcpTest) standsByForTheWayOut() {
	other := t.mcpOverStdio("--id", "box", "--allow-host", "first.test")
	first := other.client(t.T, nil)
	callMCP(t.T, first, "Bash", map[string]any{"command": "true"}) // it serves now
	second := t.serve("--id", "box", "--allow-host", "second.test").client(t.T, nil)
	tried := map[string]any{"command": "curl -sS http://denied.test"}
	if text, _ := callMCP(t.T, second, "Bash", tried); !strings.Contains(text, "Allowed here: first.test") {
		t.Errorf("while another serves: %s", text)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	other.wait()
	if text, _ := callMCP(t.T, second, "Bash", tried); !strings.Contains(text, "Allowed here: second.test") {
		t.Errorf("after its end: %s", text)
	}
}
