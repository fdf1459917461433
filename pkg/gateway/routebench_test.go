package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// BenchmarkRoute takes turns between a request that the gateway routes and the same through the
// standard library's proxy, which dials the server's address. It reports their medians, and how
// much more the gateway takes.
func BenchmarkRoute(b *testing.B) {
	l := launchertest.Local(b)
	sandbox, err := l.Launch(b.Context(), launcher.Spec{ID: "acme.web"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { sandbox.Close() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 64)) }))
	b.Cleanup(server.Close)
	g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "acme", Token: "a"}})
	routed := httptest.NewServer(g)
	b.Cleanup(func() { routed.Close(); g.Close() })
	direct := httptest.NewServer(httputil.NewSingleHostReverseProxy(must(url.Parse(server.URL))))
	b.Cleanup(direct.Close)

	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, to := range []string{direct.URL, routed.URL} {
			req, err := http.NewRequestWithContext(b.Context(), "GET", to, nil)
			if err != nil {
				b.Fatal(err)
			}
			req.Header = http.Header{"Authorization": {"Bearer a"}, "X-Sandbox-Id": {"web"}, "X-Sandbox-Port": {portOf(server)}}
			began := time.Now()
			r, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			text, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || len(text) != 64 {
				b.Fatalf("%d %s: %v", r.StatusCode, text, err)
			}
			took[to] = append(took[to], time.Since(began))
		}
	}
	medians := map[string]float64{}
	for to, all := range took {
		slices.Sort(all)
		medians[to] = all[len(all)/2].Seconds() * 1000
	}
	b.ReportMetric(medians[direct.URL], "ms-direct")
	b.ReportMetric(medians[routed.URL], "ms-routed")
	b.ReportMetric(medians[routed.URL]-medians[direct.URL], "ms-more")
}
