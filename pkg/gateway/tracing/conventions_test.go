package tracing_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	spanpb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// lacks reports which of the attributes a span has all the same.
func lacks(t *testing.T, s *spanpb.Span, keys ...string) {
	t.Helper()
	for _, attribute := range attributesOf(s.Attributes) {
		if key, _, _ := strings.Cut(attribute, "="); slices.Contains(keys, key) {
			t.Errorf("the span %s has %s", s.Name, attribute)
		}
	}
}

func TestSpansOfOperationsHaveTheirRoutes(t *testing.T) {
	d := newTraced(t)
	d.send("GET", own+"/files?path=none", "")
	has(t, d.span(t, "read-file", ""), "http.route=/api/v1/sandboxes/{id}/files", "error.type=not_exist", "podagent.class=not_exist", "server.address=127.0.0.1")
	d.send("POST", own+"/processes/x/signal", `{"signal":15}`)
	has(t, d.span(t, "signal-process", ""), "http.route=/api/v1/sandboxes/{id}/processes/{exec_id}/signal")
	d.send("GET", "/mcp", "")
	has(t, d.span(t, "mcp", ""), "http.route=/mcp")
	d.send("GET", "/api/v1/else", "")
	lacks(t, d.span(t, "unknown", "url.path=/api/v1/else"), "http.route")
	d.send("GET", own, "", "X-Sandbox-ID: job-1", "X-Sandbox-Port: 1")
	lacks(t, d.span(t, "route", ""), "http.route")
}

func TestSpansOfCallsOfPodapiFollowTheConventionsForGRPC(t *testing.T) {
	d := newTraced(t)
	address := strings.TrimPrefix(d.url, "http://")
	_, port, _ := net.SplitHostPort(address)
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer a", "podagent-sandbox", "job-1")
	for _, call := range []struct {
		path     string
		in       proto.Message
		name     string // of the span
		want     []string
		notThere []string
		status   spanpb.Status_StatusCode
	}{
		{
			pb.Files_Stat_FullMethodName, &pb.StatRequest{Path: []byte(".")}, "podapi.v1.Files/Stat",
			[]string{"rpc.method=podapi.v1.Files/Stat", "rpc.response.status_code=OK"},
			[]string{"error.type", "podagent.class", "rpc.method_original"},
			spanpb.Status_STATUS_CODE_UNSET,
		},
		{
			healthpb.Health_Check_FullMethodName, &healthpb.HealthCheckRequest{}, "grpc.health.v1.Health/Check",
			[]string{"rpc.method=grpc.health.v1.Health/Check", "rpc.response.status_code=OK"},
			nil, spanpb.Status_STATUS_CODE_UNSET,
		},
		{ // the caller's fault
			pb.Files_Read_FullMethodName, &pb.ReadRequest{Path: []byte("none")}, "podapi.v1.Files/Read",
			[]string{"rpc.response.status_code=NOT_FOUND", "podagent.class=not_exist"},
			[]string{"error.type"},
			spanpb.Status_STATUS_CODE_UNSET,
		},
		{ // a name that anybody can make up
			"/podapi.v1.Agent/Reboot", &emptypb.Empty{}, "grpc",
			[]string{"rpc.method=_OTHER", "rpc.method_original=podapi.v1.Agent/Reboot", "rpc.response.status_code=UNIMPLEMENTED", "error.type=UNIMPLEMENTED", "podagent.class=unsupported"},
			nil, spanpb.Status_STATUS_CODE_ERROR,
		},
	} {
		_ = conn.Invoke(ctx, call.path, call.in, &emptypb.Empty{})
		s := d.span(t, call.name, "")
		has(t, s, append(call.want, "rpc.system.name=grpc", "server.address=127.0.0.1", "server.port="+port, "network.peer.address=127.0.0.1")...)
		lacks(t, s, append(call.notThere, "http.route", "http.request.method", "http.response.status_code")...)
		if got := s.Status.GetCode(); got != call.status {
			t.Errorf("the span %s has the status %v", s.Name, got)
		}
	}
}
