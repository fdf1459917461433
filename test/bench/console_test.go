package bench

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/gateway/console/consoletest"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// consoleView is what the first view of the console may take, in milliseconds.
const consoleView = 1000

// consoleViews is how often it is shown.
const consoleViews = 20

// BenchmarkConsoleFirstView measures how soon Chromium shows the list of sandboxes.
func BenchmarkConsoleFirstView(b *testing.B) {
	const token = "the-token-of-a-tenant-for-the-benchmark"
	g := gateway.New(gateway.Options{Launcher: launchertest.Local(b), Tenants: gateway.OneTenant{Name: "acme", Token: token}})
	var page http.Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { page.ServeHTTP(w, r) }))
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	origin := console.LocalOrigin(port)
	page = console.New(console.Options{Gateway: g, Local: origin})
	b.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := g.Close(); err != nil {
			b.Error(err)
		}
	})
	create := httptest.NewRequestWithContext(b.Context(), "POST", "/api/v1/sandboxes", strings.NewReader(`{"id":"bench"}`))
	create.Header.Set("Authorization", "Bearer "+token)
	create.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	if g.ServeHTTP(answer, create); answer.Code != http.StatusCreated {
		b.Fatalf("%d %s", answer.Code, answer.Body)
	}
	times := consoletest.Views(b, consoletest.Plan{Origin: origin, Token: token, Sandbox: "bench"}, consoleViews+1)
	next := 0
	r := compare(b, "console", "first view", consoleViews, side{name: "podagent", timed: func() (time.Duration, error) {
		next++
		return times[next-1], nil
	}})
	r.limit(fmt.Sprintf("%d ms", consoleView), consoleView)
}
