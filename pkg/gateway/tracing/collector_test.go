package tracing_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/tracing"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// hung bounds waits for what must happen.
const hung = time.Minute

// collector receives spans by OTLP.
type collector struct {
	tracepb.UnimplementedTraceServiceServer
	mu       sync.Mutex
	spans    []*spanpb.Span
	services []string
}

func (c *collector) Export(_ context.Context, r *tracepb.ExportTraceServiceRequest) (*tracepb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range r.ResourceSpans {
		for _, a := range resource.Resource.Attributes {
			if a.Key == "service.name" {
				c.services = append(c.services, a.Value.GetStringValue())
			}
		}
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &tracepb.ExportTraceServiceResponse{}, nil
}

// ServeHTTP implements [http.Handler].
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var request tracepb.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(body, &request) != nil {
		http.Error(w, "no spans", http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), &request)
}

// serveGRPC returns where the collector is served by gRPC.
func (c *collector) serveGRPC(t *testing.T) (url string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	tracepb.RegisterTraceServiceServer(server, c)
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

// traced is a gateway whose spans go to a collector.
type traced struct {
	*testing.T
	*collector
	traces *tracing.Traces
	url    string
}

// newTraced returns a gateway that exports as the variables say, which are given as NAME=VALUE.
func newTraced(t *testing.T, variables ...string) *traced {
	t.Helper()
	c := &collector{}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return tracedTo(t, c, append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL}, variables...)...)
}

func tracedTo(t *testing.T, c *collector, variables ...string) *traced {
	t.Helper()
	for _, v := range append([]string{"OTEL_BSP_SCHEDULE_DELAY=10"}, variables...) {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	traces, err := tracing.FromEnv(t.Context(), "v1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // without patience: there may be no collector
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = traces.Shutdown(ctx)
	})
	g := gateway.New(gateway.Options{
		Launcher: launchertest.Local(t), Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Domain: "sandboxes.test",
		Observers: []gateway.Observer{traces},
	})
	server := httptest.NewUnstartedServer(g)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(func() { server.Close(); g.Close() })
	d := &traced{T: t, collector: c, traces: traces, url: server.URL}
	d.send("POST", "/api/v1/sandboxes", `{"id":"job-1","public_ports":[1]}`)
	return d
}

// send sends a request, with headers given as "Name: value", and reads its answer.
func (d *traced) send(method, path, body string, headers ...string) *http.Response {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), hung)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer a"}, "Content-Type": {"application/json"}, "User-Agent": {"tester"}}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		switch {
		case name == "Host":
			req.Host = value
		case value == "":
			req.Header.Del(name)
		}
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	_, _ = io.Copy(io.Discard, r.Body)
	return r
}

// span waits for a span of this name that has the attribute, and returns it.
func (c *collector) span(t *testing.T, name, attribute string) *spanpb.Span {
	t.Helper()
	for over := time.Now().Add(hung); ; time.Sleep(5 * time.Millisecond) {
		c.mu.Lock()
		i := slices.IndexFunc(c.spans, func(s *spanpb.Span) bool {
			return s.Name == name && (attribute == "" || slices.Contains(attributesOf(s.Attributes), attribute))
		})
		if i >= 0 {
			defer c.mu.Unlock()
			return c.spans[i]
		}
		c.mu.Unlock()
		if time.Now().After(over) {
			t.Fatalf("no span %s with %s in:\n%s", name, attribute, c.all())
		}
	}
}

// all describes the spans.
func (c *collector) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, s := range c.spans {
		lines = append(lines, fmt.Sprintf("%s %v", s.Name, attributesOf(s.Attributes)))
	}
	return strings.Join(lines, "\n")
}

// attributesOf returns attributes as name=value.
func attributesOf(all []*commonpb.KeyValue) (list []string) {
	for _, a := range all {
		value := a.Value.GetStringValue()
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_IntValue:
			value = fmt.Sprint(v.IntValue)
		case *commonpb.AnyValue_ArrayValue:
			for i, of := range v.ArrayValue.Values {
				value += strings.Repeat(" ", min(i, 1)) + of.GetStringValue()
			}
		}
		list = append(list, a.Key+"="+value)
	}
	return list
}

func id(b []byte) string { return hex.EncodeToString(b) }

// nameWriter writes down the names of spans in the order of their ends.
type nameWriter struct{ io.Writer }

func (w nameWriter) ExportSpans(_ context.Context, spans []tracesdk.ReadOnlySpan) error {
	for _, s := range spans {
		fmt.Fprintf(w, "%s, ", s.Name())
	}
	return nil
}

func (nameWriter) Shutdown(context.Context) error { return nil }
