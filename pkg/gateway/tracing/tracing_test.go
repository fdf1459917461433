package tracing_test

import (
	"bytes"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	tracesdk "go.opentelemetry.io/otel/sdk/trace"
	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/tracing"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchtrace"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

const (
	theirTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	theirSpan  = "00f067aa0ba902b7"
	parent     = "Traceparent: 00-" + theirTrace + "-" + theirSpan + "-01"
	own        = "/api/v1/sandboxes/job-1"
)

// has reports which of the attributes a span lacks.
func has(t *testing.T, s *spanpb.Span, want ...string) {
	t.Helper()
	all := attributesOf(s.Attributes)
	for _, attribute := range want {
		if !slices.Contains(all, attribute) {
			t.Errorf("the span %s has no %s: %q", s.Name, attribute, all)
		}
	}
}

func TestCallsAreSpansBelowTheCallersOwn(t *testing.T) {
	d := newTraced(t, "OTEL_SERVICE_NAME=door")
	r := d.send("POST", own+"/exec", `{"args":["/bin/sh","-c","exit 3"]}`, parent)
	call := d.span(t, "exec", "podagent.request_id="+r.Header.Get("X-Request-Id"))
	if id(call.TraceId) != theirTrace || id(call.ParentSpanId) != theirSpan || call.Kind != spanpb.Span_SPAN_KIND_SERVER {
		t.Errorf("the call is not the caller's: %v", call)
	}
	has(t, call, "http.request.method=POST", "url.path="+own+"/exec", "http.response.status_code=200", "user_agent.original=tester",
		"podagent.tenant=acme", "podagent.sandbox=job-1", "client.address=127.0.0.1", "http.request.body.size=34")
	command := d.span(t, "command", "")
	if id(command.ParentSpanId) != id(call.SpanId) || command.Status.GetCode() != spanpb.Status_STATUS_CODE_ERROR {
		t.Errorf("the command: %v", command)
	}
	has(t, command, "process.command_args=/bin/sh -c exit 3", "process.executable.name=sh", "process.exit.code=3", "error.type=exit")
	if !slices.ContainsFunc(attributesOf(command.Attributes), func(a string) bool { return strings.HasPrefix(a, "process.pid=") }) {
		t.Error("the command has no process.pid")
	}
	launch := d.span(t, "launch", "")
	made := d.span(t, "create-sandbox", "http.response.status_code=201")
	if id(launch.ParentSpanId) != id(made.SpanId) || len(made.ParentSpanId) != 0 {
		t.Errorf("the launch %v is not of %v", launch, made)
	}
	d.send("GET", own+"/files?path=none", "")
	has(t, d.span(t, "read-file", ""), "error.type=not_exist", "podagent.paths=none", "http.response.status_code=404")
	if !slices.Contains(d.services, "door") {
		t.Errorf("the service is %q", d.services)
	}
}

func TestSpansGoByGRPCToo(t *testing.T) {
	c := &collector{}
	d := tracedTo(t, c, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+c.serveGRPC(t), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	d.send("GET", own, "")
	has(t, d.span(t, "get-sandbox", ""), "podagent.sandbox=job-1")
	if c.services[0] != "podagent-gateway" {
		t.Errorf("the service is %q", c.services)
	}
}

func TestServersInSandboxesAreBelowTheGatewaysSpan(t *testing.T) {
	told := make(chan http.Header, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { told <- r.Header }))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	to := []string{"X-Sandbox-ID: job-1", "X-Sandbox-Port: " + port, parent, "Baggage: theirs=1", "Tracestate: vendor=1"}

	d := newTraced(t)
	d.send("GET", "/page?q=secret", "", to...)
	got := <-told
	span := d.span(t, "route", "url.path=/page")
	if want := "00-" + theirTrace + "-" + id(span.SpanId) + "-01"; got.Get("Traceparent") != want {
		t.Errorf("the server was told %s, want %s", got.Get("Traceparent"), want)
	}
	if got.Get("Baggage") != "theirs=1" || got.Get("Tracestate") != "vendor=1" {
		t.Errorf("what is the caller's is not as it was: %v", got)
	}
	if strings.Contains(d.all(), "secret") {
		t.Errorf("the query is in %s", d.all())
	}
	// A gateway that does not record the call does not stand between the two.
	d = newTraced(t, "OTEL_TRACES_SAMPLER=always_off")
	d.send("GET", "/", "", to...)
	if got := (<-told).Get("Traceparent"); "Traceparent: "+got != parent {
		t.Errorf("the server was told %s", got)
	}
	if d.all() != "" {
		t.Errorf("there are spans:\n%s", d.all())
	}
}

// Who has no token does not choose a trace, nor whether it is recorded.
func TestStrangersAreOnlyLinkedTo(t *testing.T) {
	d := newTraced(t, "OTEL_TRACES_SAMPLER=parentbased_always_on")
	d.send("GET", "/", "", "Host: 1-job-1--acme.sandboxes.test", "Authorization: ", strings.Replace(parent, "-01", "-00", 1))
	span := d.span(t, "route", "podagent.port=1")
	if id(span.TraceId) == theirTrace || len(span.ParentSpanId) != 0 || len(span.Links) != 1 || id(span.Links[0].SpanId) != theirSpan {
		t.Errorf("%v", span)
	}
}

func TestTheCallersSamplingCountsIfTheSamplerSaysSo(t *testing.T) {
	d := newTraced(t, "OTEL_TRACES_SAMPLER=parentbased_always_off")
	d.send("GET", own, "", strings.Replace(parent, "-01", "-00", 1))
	d.send("GET", own+"/stats", "", parent)
	d.span(t, "get-stats", "")
	if all := d.all(); strings.Contains(all, "get-sandbox") || strings.Contains(all, "create-sandbox") {
		t.Errorf("spans that nobody wanted:\n%s", all)
	}
}

// One text that is not UTF-8 would lose a whole batch, and long ones fill the collector.
func TestHostileTextsDoNotLoseSpans(t *testing.T) {
	d := newTraced(t)
	d.send("GET", own+"/files?path=%FF"+strings.Repeat("x", 100_000), "")
	d.send("GET", "/%FF%FE"+strings.Repeat("y", 10_000), "", "X-Sandbox-ID: job-1", "X-Sandbox-Port: 1", "User-Agent: \xff"+strings.Repeat("z", 10_000))
	d.send("EV\x7cIL", own, "", "Tracestate: a="+strings.Repeat("b", 255)+",c="+strings.Repeat("d", 255)+",e="+strings.Repeat("f", 255), parent)
	d.send("POST", own+"/exec", `{"args":["echo","`+strings.Repeat("w", 100_000)+`"]}`)
	for _, s := range []*spanpb.Span{d.span(t, "read-file", ""), d.span(t, "route", ""), d.span(t, "unknown", "http.request.method_original=EV|IL"), d.span(t, "command", "")} {
		for _, a := range attributesOf(s.Attributes) {
			if len(a) > 1200 || !utf8.ValidString(a) {
				t.Errorf("%s has %d bytes in %.40q", s.Name, len(a), a)
			}
		}
		if len(s.TraceState) > 512 {
			t.Errorf("%s has a state of %d bytes", s.Name, len(s.TraceState))
		}
	}
}

func TestTracesAreMadeOnlyIfTheVariablesAskForThem(t *testing.T) {
	for _, variables := range [][]string{
		nil,
		{"OTEL_SERVICE_NAME=x"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"},
	} {
		t.Run(strings.Join(variables, ","), func(t *testing.T) {
			for _, v := range variables {
				name, value, _ := strings.Cut(v, "=")
				t.Setenv(name, value)
			}
			if got, err := tracing.FromEnv(t.Context(), ""); got != nil || err != nil {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
	if _, err := tracing.FromEnv(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "http/protobuf") {
		t.Errorf("a protocol that there is not: %v", err)
	}
}

// What a launch on a cluster goes through is below its span.
func TestPhasesOfALaunchAreSpans(t *testing.T) {
	var names bytes.Buffer
	p := tracesdk.NewTracerProvider(tracesdk.WithSyncer(nameWriter{&names}))
	ctx, ended := tracing.New(p).Launch(t.Context(), true)
	trace := launchtrace.FromContext(ctx)
	trace.GotPod(launchtrace.Pod{Name: "pod-1", Start: launchtrace.Warm})
	trace.Answered()
	trace.Ready()
	ended(&launcher.Sandbox{}, "")
	ctx, ended = tracing.New(p).Launch(t.Context(), false)
	launchtrace.FromContext(ctx).GotPod(launchtrace.Pod{Name: "pod-2", Start: launchtrace.Cold})
	ended(nil, "not_ready")
	if got, want := names.String(), "claim pod, wait for agent, prepare, resume, create pod, launch, "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestToolsAndCallsOfPodapiAreTraced(t *testing.T) {
	d := newTraced(t)
	d.send("POST", "/mcp?sandbox=job-1", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"Bash","arguments":{"command":"true"}}}`,
		"Accept: application/json, text/event-stream", parent)
	tool := d.span(t, "execute_tool Bash", "gen_ai.operation.name=execute_tool")
	if call := d.span(t, "mcp/Bash", ""); id(tool.ParentSpanId) != id(call.SpanId) || id(call.ParentSpanId) != theirSpan {
		t.Errorf("%v is not below %v", tool, call)
	}
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(d.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a", "podagent-sandbox", "job-1", "traceparent", strings.TrimPrefix(parent, "Traceparent: "))
	if _, err := pb.NewAgentClient(conn).Info(ctx, &pb.InfoRequest{}); err != nil {
		t.Fatal(err)
	}
	call := d.span(t, "podapi.v1.Agent/Info", "rpc.method=podapi.v1.Agent/Info")
	has(t, call, "rpc.system.name=grpc", "podagent.sandbox=job-1")
	if id(call.ParentSpanId) != theirSpan {
		t.Errorf("the call is not the caller's: %v", call)
	}
}

// Tools of the Model Context Protocol, and calls of podapi, have the names that their conventions say.
func TestToolsAndCallsOfPodapiAreNamedByTheirConventions(t *testing.T) {
	var names bytes.Buffer
	traces := tracing.New(tracesdk.NewTracerProvider(tracesdk.WithSyncer(nameWriter{&names})))
	for _, operation := range []string{"mcp/bash", "mcp/end", "mcp/resources/read", "podapi.v1.Files/Read"} {
		a := gateway.Act{Operation: operation}
		ctx := traces.Arrive(t.Context(), a, httptest.NewRequestWithContext(t.Context(), "POST", "/", nil))
		_ = traces.Begin(ctx, a)
		traces.End(ctx, a, gateway.Outcome{Status: 200})
	}
	if got, want := names.String(), "execute_tool bash, mcp/bash, mcp/end, mcp/resources/read, podapi.v1.Files/Read, "; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
