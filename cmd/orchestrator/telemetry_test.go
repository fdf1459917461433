//go:build linux

package main

// What operators see of a gateway: metrics beside its health, and traces that a collector gets.

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"syscall"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

func TestOperatorsAloneSeeMetrics(t *testing.T) {
	t.Parallel()
	g := newCLI(t).gateway("--metrics-per-tenant")
	_, _ = io.Copy(io.Discard, g.ask("POST", g.URL+sandboxesPath, `{"id":"job-1"}`, "Content-Type: application/json").Body)
	defer func() { _, _ = io.Copy(io.Discard, g.ask("DELETE", g.URL+sandboxesPath+"/job-1", "").Body) }()
	if got := g.status(g.URL + "/metrics"); got != 404 {
		t.Errorf("callers get %d", got)
	}
	// The act ends a little after its answer; the next one of the same connection begins later.
	g.status(g.URL + sandboxesPath)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(g.ask("GET", g.Health+"/metrics", "").Body)
	if err != nil {
		t.Fatal(err)
	}
	for name, label := range map[string]string{
		"podagent_gateway_calls_total":        "create-sandbox",
		"podagent_gateway_launches_total":     "cold",
		"podagent_gateway_tenant_calls_total": "main",
		"go_goroutines":                       "",
		"process_open_fds":                    "",
	} {
		if !slices.ContainsFunc(families[name].GetMetric(), func(m *dto.Metric) bool {
			return label == "" || slices.ContainsFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetValue() == label })
		}) {
			t.Errorf("no %s of %q", name, label)
		}
	}
}

// tracedGateway is a gateway that exports only when it ends.
func tracedGateway(t *testing.T, endpoint string) *gatewayProgram {
	t.Helper()
	c := newCLI(t)
	c.env = append(slices.Clip(c.env), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_BSP_SCHEDULE_DELAY=3600000")
	g := c.gateway()
	if got := g.status(g.URL + sandboxesPath); got != 200 {
		t.Fatalf("list: %d", got)
	}
	if err := g.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTracesThatAreLeftAreExportedWhenAGatewayEnds(t *testing.T) {
	t.Parallel()
	names := make(chan string, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var request tracepb.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &request); err != nil {
			t.Error(err)
		}
		for _, resource := range request.ResourceSpans {
			for _, span := range resource.ScopeSpans[0].Spans {
				names <- span.Name
			}
		}
	}))
	defer collector.Close()
	tracedGateway(t, collector.URL).end()
	select {
	case name := <-names:
		if name != "list-sandboxes" {
			t.Errorf("the span is %s", name)
		}
	default:
		t.Error("no span was exported")
	}
}

func TestGatewaysEndAlsoIfTheirCollectorHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	tracedGateway(t, "http://"+silent.Addr().String()).end() // or the test never ends
}
