package tracing_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/metrics"
	"github.com/podagent/podagent/pkg/gateway/tracing"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// BenchmarkObserved takes turns between gateways that nobody observes, with metrics, and with
// metrics and traces of none and of all calls. It reports their medians in milliseconds.
func BenchmarkObserved(b *testing.B) {
	l := launchertest.Local(b)
	sandbox, err := l.Launch(b.Context(), launcher.Spec{ID: "acme.job-1"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { sandbox.Close() })
	observers := map[string][]gateway.Observer{
		"plain":   nil,
		"metrics": {metrics.New()},
		"none":    {metrics.New(), sampling(b, "always_off")},
		"all":     {metrics.New(), sampling(b, "always_on")},
	}
	urls := map[string]string{}
	for name, of := range observers {
		g := gateway.New(gateway.Options{Launcher: l, Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Observers: of})
		server := httptest.NewServer(g)
		b.Cleanup(func() { server.Close(); g.Close() })
		urls[name] = server.URL + own
	}
	for _, call := range []struct{ name, method, path, body string }{
		{"exec", "POST", "/exec", `{"args":["true"]}`},
		{"stat", "GET", "/files/stat?path=.", ""},
	} {
		b.Run(call.name, func(b *testing.B) {
			took := map[string][]time.Duration{}
			for b.Loop() {
				for name, url := range urls {
					took[name] = append(took[name], takes(b, call.method, url+call.path, call.body))
				}
			}
			for name, all := range took {
				slices.Sort(all)
				b.ReportMetric(all[len(all)/2].Seconds()*1000, "ms-"+name)
			}
		})
	}
}

// sampling returns traces that go to a collector, if the sampler wants them.
func sampling(b *testing.B, sampler string) *tracing.Traces {
	b.Helper()
	server := httptest.NewServer(&collector{})
	b.Cleanup(server.Close)
	b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	b.Setenv("OTEL_TRACES_SAMPLER", sampler)
	t, err := tracing.FromEnv(b.Context(), "")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = t.Shutdown(b.Context()) })
	return t
}

// takes sends a request, and returns how long it takes.
func takes(b *testing.B, method, url, body string) time.Duration {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, strings.NewReader(body))
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
	if err != nil || r.StatusCode != 200 {
		b.Fatalf("%d %s: %v", r.StatusCode, text, err)
	}
	return time.Since(began)
}
