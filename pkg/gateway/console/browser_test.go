package console_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console/consoletest"
)

// Each page and action in Chromium, on a sandbox whose files, processes and servers are hostile. No step may
// break the page's policy, run a script of the sandbox, or ask another host. "make screenshots" takes pictures
// in place of these steps.
func TestConsoleInABrowser(t *testing.T) {
	p := newDoor(t, func(d *door) { d.tenant.Egress = &gateway.Egress{Mode: "advisory"} }).plan()
	p.Screenshots = os.Getenv("PODAGENT_SCREENSHOTS")
	consoletest.Drive(t, p)
}

// plan makes a sandbox, and says what to do to it.
func (d *door) plan() consoletest.Plan {
	d.Helper()
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { consoletest.ServePage(w, r, d.origin) }))
	d.Cleanup(inside.Close)
	port, err := strconv.Atoi(inside.URL[strings.LastIndex(inside.URL, ":")+1:])
	if err != nil {
		d.Fatal(err)
	}
	d.call("POST", "/api/v1/sandboxes", `{"id":"job-17","labels":{"team":"red"}}`)
	d.run(consoletest.HostileFiles)
	listens, err := strconv.Atoi(strings.TrimSpace(d.run(consoletest.PageServer(d.origin, 0))))
	if err != nil {
		d.Fatal(err)
	}
	return consoletest.Plan{Origin: d.origin, Token: token, Sandbox: "job-17", Port: port, Listens: listens, Denied: "evil.test"}
}

// run runs a script in the sandbox, and returns what it writes.
func (d *door) run(script string) (out string) {
	d.Helper()
	body, _ := json.Marshal(map[string]string{"script": script})
	var exit struct {
		Code   int
		Stdout string
	}
	if err := json.Unmarshal(d.call("POST", "/api/v1/sandboxes/job-17/exec", string(body)), &exit); err != nil || exit.Code != 0 {
		d.Fatal(exit, err)
	}
	return exit.Stdout
}

// call calls the gateway with the token.
func (d *door) call(method, path, body string) []byte {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.server.URL+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode >= 300 {
		d.Fatalf("%s %s: %d %s %v", method, path, r.StatusCode, text, err)
	}
	return text
}
