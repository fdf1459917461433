package metrics_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/metrics"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// counted is a gateway over a local launcher with metrics.
type counted struct {
	*testing.T
	*metrics.Metrics
	url string
}

func newCounted(t *testing.T, options ...metrics.Option) *counted {
	t.Helper()
	c := &counted{t, metrics.New(options...), ""}
	g := gateway.New(gateway.Options{
		Launcher: launchertest.Local(t), Tenants: gateway.OneTenant{Name: "acme", Token: "a"},
		Observers: []gateway.Observer{c.Metrics},
	})
	server := httptest.NewServer(g)
	t.Cleanup(func() { server.Close(); g.Close() })
	c.url = server.URL
	return c
}

// send sends a request, with headers given as "Name: value", and reads its answer.
func (c *counted) send(method, path, body string, headers ...string) int {
	c.Helper()
	req, err := http.NewRequestWithContext(c.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer a"}, "Content-Type": {"application/json"}}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		c.Fatal(err)
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r.StatusCode
}

// scrape returns the values of the series of the gateway, as in calls_total{code="200"}; of a
// histogram, how many were observed.
func scrape(t *testing.T, h http.Handler) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for name, family := range families {
		short, ours := strings.CutPrefix(name, "podagent_gateway_")
		if !ours {
			continue
		}
		for _, m := range family.Metric {
			all[short+labelsOf(m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

func labelsOf(m *dto.Metric) string {
	var all []string
	for _, l := range m.Label {
		all = append(all, l.GetName()+"="+strconv.Quote(l.GetValue()))
	}
	slices.Sort(all)
	return "{" + strings.Join(all, ",") + "}"
}

// eventually waits until the metrics are as wanted: an act ends a little after its answer.
func (c *counted) eventually(want map[string]float64) {
	c.Helper()
	hung := time.Now().Add(time.Minute)
	for {
		got := scrape(c.T, c.Handler())
		missing := maps.Clone(want)
		maps.DeleteFunc(missing, func(name string, value float64) bool { return got[name] == value })
		if len(missing) == 0 {
			return
		}
		if time.Now().After(hung) {
			c.Fatalf("no %v in %v", missing, got)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestCallsAreCountedByWhatTheyAreAndHowTheyEnd(t *testing.T) {
	c := newCounted(t, metrics.PerTenant)
	const own = "/api/v1/sandboxes/job-1"
	c.send("POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	c.send("POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	c.send("POST", own+"/exec", `{"args":["sh","-c","echo hello; exit 3"]}`)
	c.send("PUT", own+"/files?path=a", "12345")
	c.send("GET", own+"/files?path=none", "")
	c.send("GET", own, "", "Authorization: Bearer wrong")
	c.eventually(map[string]float64{
		`calls_total{class="",code="201",operation="create-sandbox"}`:     1,
		`calls_total{class="",code="200",operation="create-sandbox"}`:     1,
		`calls_total{class="",code="200",operation="exec"}`:               1,
		`calls_total{class="not_exist",code="404",operation="read-file"}`: 1,
		`call_duration_seconds{operation="exec"}`:                         1,
		`calls_in_flight{operation="exec"}`:                               0,
		`received_bytes_total{operation="write-file"}`:                    5,
		`launches_total{class="",start="cold"}`:                           1,
		`launches_total{class="",start="adopted"}`:                        1,
		`launch_duration_seconds{start="cold"}`:                           1,
		`refusals_total{class="unauthenticated",code="401"}`:              1,
		`tenant_calls_total{code="200",tenant="acme"}`:                    2,
		`audit_failures_total{}`:                                          0,
	})
}

func TestCallsUnderWayAreCounted(t *testing.T) {
	c := newCounted(t)
	c.send("POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, "GET", c.url+"/api/v1/sandboxes/job-1/watch?path=.", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer a")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	c.eventually(map[string]float64{`calls_in_flight{operation="watch"}`: 1})
	leave()
	c.eventually(map[string]float64{`calls_in_flight{operation="watch"}`: 0})
}

// What callers and sandboxes make up is in no label, so that they cannot make series.
func TestHostileNamesMakeNoSeries(t *testing.T) {
	c := newCounted(t)
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Query().Get("status"))
		w.WriteHeader(status)
	}))
	defer hostile.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(hostile.URL, "http://"), ":")
	c.send("POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	attack := func(name string, status int) {
		c.send("GET", "/api/v1/"+name, "")
		c.send("GET", "/api/v1/sandboxes/"+name, "")
		c.send("GET", "/api/v1/sandboxes/job-1/files?path="+name, "")
		c.send("EVIL"+name, "/api/v1/sandboxes", "")
		c.send("GET", "/"+name+"?status="+strconv.Itoa(status), "", "X-Sandbox-ID: job-1", "X-Sandbox-Port: "+port)
		c.send("GET", "/"+name, "", "X-Sandbox-ID: "+name)
	}
	attack("first", 799)
	c.eventually(map[string]float64{`calls_total{class="",code="7xx",operation="route"}`: 1, `calls_in_flight{operation="route"}`: 0})
	before := scrape(t, c.Handler())
	for i := range 20 {
		attack("name-"+strconv.Itoa(i), 700+i)
	}
	c.eventually(map[string]float64{`calls_total{class="",code="7xx",operation="route"}`: 21})
	for name := range scrape(t, c.Handler()) {
		if _, known := before[name]; !known || strings.Contains(name, "job-1") || strings.Contains(name, "name-") {
			t.Errorf("there is a new series %s", name)
		}
	}
}

func TestPhasesOfALaunchAreObserved(t *testing.T) {
	m := metrics.New()
	launch := func(resume bool, s *launcher.Sandbox, class string) {
		ctx, ended := m.Launch(t.Context(), resume)
		trace := launchtrace.FromContext(ctx)
		trace.GotPod(launchtrace.Pod{})
		trace.Answered()
		trace.Ready()
		ended(s, class)
	}
	launch(false, &launcher.Sandbox{Created: true, Start: launcher.Start{Warm: true}}, "")
	launch(false, &launcher.Sandbox{Created: true, Start: launcher.Start{Cold: "the pool has no pods"}}, "")
	launch(false, &launcher.Sandbox{Created: true, Start: launcher.Start{Cold: "something new"}}, "")
	launch(true, &launcher.Sandbox{Created: true}, "")
	launch(false, nil, "unschedulable")
	m.Swept("expired")
	got := scrape(t, m.Handler())
	for name, want := range map[string]float64{
		`launches_total{class="",start="warm"}`:                        1,
		`launches_total{class="",start="resumed"}`:                     1,
		`launches_total{class="unschedulable",start="none"}`:           1,
		`launch_phase_duration_seconds{phase="pod",start="warm"}`:      1,
		`launch_phase_duration_seconds{phase="agent",start="cold"}`:    2,
		`launch_phase_duration_seconds{phase="ready",start="resumed"}`: 1,
		`warm_misses_total{reason="empty"}`:                            1,
		`warm_misses_total{reason="other"}`:                            1,
		`swept_total{reason="expired"}`:                                1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

type full struct{}

func (full) Begin(context.Context, gateway.Act) error          { return errors.New("the disk is full") }
func (full) End(context.Context, gateway.Act, gateway.Outcome) {}

func TestFailuresOfTheAuditLogAreCounted(t *testing.T) {
	m := metrics.New()
	if err := m.Audit(full{}).Begin(t.Context(), gateway.Act{}); err == nil {
		t.Error("the failure is hidden")
	}
	if got := scrape(t, m.Handler())["audit_failures_total{}"]; got != 1 {
		t.Errorf("%v failures", got)
	}
}

func TestNamesAndUnitsAreThoseOfPrometheus(t *testing.T) {
	c := newCounted(t, metrics.PerTenant)
	c.send("POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	c.send("GET", "/api/v1/sandboxes", "", "Authorization: Bearer wrong")
	c.Swept("expired")
	_, ended := c.Launch(t.Context(), false)
	ended(&launcher.Sandbox{Start: launcher.Start{Cold: "x"}}, "")
	w := httptest.NewRecorder()
	c.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	problems, err := promlint.New(w.Body).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
