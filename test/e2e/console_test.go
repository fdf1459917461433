package e2e

import (
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/gateway/console/consoletest"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The console in a browser, by HTTPS, on a sandbox in a pod: it is also paused, resumed and extended. Pods on
// this machine come with networks and go with them, at which Chromium ends all that is under way by HTTP/2: the
// page then goes on.
func TestConsoleOfAPodInABrowser(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	base := c.Spec("")
	base.Pod.Workspace = launcher.Workspace{Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 1)}
	g := gateway.New(gateway.Options{Launcher: c.Launcher(), Tenants: gateway.OneTenant{Name: "acme", Token: gatewayToken}, Base: base})
	var page *console.Console
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	page = console.New(console.Options{Gateway: g})
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Chromium takes the certificate at its second try
	server.StartTLS()
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { server.CloseClientConnections() }))
	t.Cleanup(func() {
		cut.Close()
		server.CloseClientConnections()
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	send := func(path string, body any) {
		t.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/v1/sandboxes"+path, strings.NewReader(string(text)))
		r.Header.Set("Authorization", "Bearer "+gatewayToken)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		g.ServeHTTP(w, r)
		if w.Code >= 300 || strings.Contains(path, "/exec") && !strings.Contains(w.Body.String(), `"code":0`) {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	send("", map[string]any{"id": "job-17", "keep": true, "lifetime_seconds": 3600, "labels": map[string]string{"team": "red"}})
	send("/job-17/exec", map[string]string{"script": consoletest.HostileFiles})
	consoletest.Drive(t, consoletest.Plan{
		Origin: "https://gateway.test:" + port, Token: gatewayToken, Sandbox: "job-17", Pods: true, Cut: cut.URL,
		// The others do not depend on where a sandbox runs.
		Only: []string{
			"login with a wrong key", "login with a key", "list", "a command and its live output", "signals", "files", "hostile names of files", "upload by drop", "changes to files", "changes after a connection that broke",
			"a link to the terminal starts nothing", "terminal", "terminal after a reload, with its screen", "terminals that run are listed", "terminal over a connection that broke", "end of a terminal", "details", "events", "pause, resume and extend", "end of a sandbox", "logout",
		},
	})
}
