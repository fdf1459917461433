package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/gateway/console/consoletest"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// The console in a browser, by HTTPS, on a sandbox in a pod, with a server in it: it is also paused, resumed and extended.
func TestConsoleOfAPodInABrowser(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	base := c.Spec("")
	base.Pod.Image = launchertest.ProgramsImage
	base.Pod.Workspace = launcher.Workspace{Size: resource.MustParse("1Gi"), StorageClass: c.Storage(t, 1)}
	var page *console.Console
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	port := server.Listener.Addr().(*net.TCPAddr).Port
	keys := filepath.Join(t.TempDir(), "links")
	if err := os.WriteFile(keys, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(gateway.Options{
		Launcher: c.Launcher(), Tenants: gateway.OneTenant{Name: "acme", Token: gatewayToken, Egress: &gateway.Egress{Mode: "advisory"}}, Base: base,
		Domain: fmt.Sprintf("sandboxes.test:%d", port), TLS: true, LinkKeys: &gateway.LinkKeys{Path: keys},
	})
	page = console.New(console.Options{Gateway: g})
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // Chromium takes the certificate at its second try
	server.StartTLS()
	t.Cleanup(func() {
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
	origin := fmt.Sprintf("https://gateway.test:%d", port)
	send("", map[string]any{"id": "job-17", "keep": true, "lifetime_seconds": 3600, "labels": map[string]string{"team": "red"}})
	send("/job-17/exec", map[string]string{"script": consoletest.HostileFiles})
	send("/job-17/exec", map[string]string{"script": consoletest.PageServer(origin, consolePort)})
	consoletest.Drive(t, consoletest.Plan{
		Origin: origin, Token: gatewayToken, Sandbox: "job-17", Pods: true, Port: consolePort, Listens: consolePort, Denied: "evil.test",
	})
}

// consolePort is where the server in the pod listens.
const consolePort = 8000
