package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// BenchmarkRecords takes turns between calls of a gateway that keeps records of them, as all do, and of one that does
// not. It reports their medians, and how much more the records take.
func BenchmarkRecords(b *testing.B) {
	l := launchertest.Local(b)
	sandbox, err := l.Launch(b.Context(), launcher.Spec{ID: "acme.web"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { sandbox.Close() })
	var urls []string // of the one without, and with
	for range 2 {
		g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "acme", Token: "a"}})
		if len(urls) == 0 {
			gateway.KeepNoRecords(g)
		}
		server := httptest.NewServer(g)
		b.Cleanup(func() { server.Close(); g.Close() })
		urls = append(urls, server.URL)
	}
	script := "true\n" + strings.Repeat("# a line of a script that does not do much\n", 40)
	for _, call := range []struct{ name, method, path, body string }{
		{"stat", "GET", "/files/stat?path=.", ""},
		{"exec", "POST", "/exec", `{"args":["true"]}`},
		{"script", "POST", "/exec", fmt.Sprintf(`{"script":%q}`, script)},
	} {
		b.Run(call.name, func(b *testing.B) {
			took := make([][]time.Duration, len(urls))
			for turn := 0; b.Loop(); turn++ {
				for n := range urls {
					i := (n + turn) % len(urls) // neither is always the first
					url := urls[i]
					req, err := http.NewRequestWithContext(b.Context(), call.method, url+"/api/v1/sandboxes/web"+call.path, strings.NewReader(call.body))
					if err != nil {
						b.Fatal(err)
					}
					req.Header = http.Header{"Authorization": {"Bearer a"}, "Content-Type": {"application/json"}}
					began := time.Now()
					r, err := http.DefaultClient.Do(req)
					if err != nil {
						b.Fatal(err)
					}
					text, err := io.ReadAll(r.Body)
					r.Body.Close()
					took[i] = append(took[i], time.Since(began))
					if err != nil || r.StatusCode != 200 {
						b.Fatalf("%d %s: %v", r.StatusCode, text, err)
					}
				}
			}
			var medians [2]float64
			for i := range took {
				slices.Sort(took[i])
				medians[i] = float64(took[i][len(took[i])/2].Nanoseconds()) / 1000
			}
			b.ReportMetric(medians[0], "µs-without")
			b.ReportMetric(medians[1], "µs-with")
			b.ReportMetric(100*(medians[1]/medians[0]-1), "%-more")
		})
	}
}
