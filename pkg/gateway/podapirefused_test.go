package gateway_test

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// grpc returns a connection to the gateway.
func (d *door) grpc() *grpc.ClientConn {
	d.Helper()
	conn, err := grpc.NewClient(strings.TrimPrefix(d.url, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { conn.Close() })
	return conn
}

// invoke makes a call with a message, and metadata in pairs, and returns its status.
func (d *door) invoke(conn grpc.ClientConnInterface, path string, message proto.Message, pairs []string, opts ...grpc.CallOption) *status.Status {
	return status.Convert(conn.Invoke(metadata.AppendToOutgoingContext(d.Context(), pairs...), path, message, &emptypb.Empty{}, opts...))
}

// reasonOf returns the class that a status names.
func reasonOf(s *status.Status) string {
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "podagent.gateway" {
			return info.Reason
		}
	}
	return ""
}

// methodsOf returns the paths of all methods in the contract.
func methodsOf(t *testing.T) (paths []string) {
	t.Helper()
	services := pb.File_podapi_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			paths = append(paths, "/"+string(services.Get(i).FullName())+"/"+string(methods.Get(j).Name()))
		}
	}
	if len(paths) < 25 {
		t.Fatalf("the contract has but the methods %q", paths)
	}
	return paths
}

func TestRefusedCallsOfPodapiSayWhy(t *testing.T) {
	d := newDoor(t)
	d.writeKeys("tenants:\n  acme:\n    keys:\n    - sha256: " + hashOf("a") + "\n  slow:\n    rate: {requests_per_second: 0.001, burst: 1}\n    keys:\n    - sha256: " + hashOf("s") + "\n")
	d.sandbox()
	conn := d.grpc()
	const stat = pb.Files_Stat_FullMethodName
	with := func(token, sandbox string, more ...string) []string {
		return append([]string{"authorization", "Bearer " + token, "podagent-sandbox", sandbox}, more...)
	}
	d.invoke(conn, stat, &emptypb.Empty{}, with("s", "job-1")) // which uses up a rate
	for name, s := range map[string]struct {
		path     string
		metadata []string
		code     codes.Code
		reason   string
		is       error // of podapi's errors
		opts     []grpc.CallOption
	}{
		"no token":         {stat, []string{"podagent-sandbox", "job-1"}, codes.Unauthenticated, "unauthenticated", podapi.ErrUnauthenticated, nil},
		"an unknown token": {stat, with("x", "job-1"), codes.Unauthenticated, "unauthenticated", podapi.ErrUnauthenticated, nil},
		"no sandbox":       {stat, with("a", "job-2"), codes.NotFound, "no_sandbox", nil, nil},
		"no name":          {stat, []string{"authorization", "Bearer a"}, codes.InvalidArgument, "invalid", syscall.EINVAL, nil},
		"an id":            {stat, with("a", "acme.job-1"), codes.InvalidArgument, "invalid", syscall.EINVAL, nil},
		"two names":        {stat, with("a", "job-1", "podagent-sandbox", "job-2"), codes.InvalidArgument, "invalid", syscall.EINVAL, nil},
		"too many":         {stat, with("s", "job-1"), codes.ResourceExhausted, "rate", podapi.ErrUnavailable, nil},
		"compressed":       {stat, with("a", "job-1"), codes.Unimplemented, "", errors.ErrUnsupported, []grpc.CallOption{grpc.UseCompressor(gzip.Name)}},
		"configure":        {pb.Agent_Configure_FullMethodName, with("a", "job-1"), codes.PermissionDenied, "permission", fs.ErrPermission, nil},
		"a far end":        {pb.Egress_Serve_FullMethodName, with("a", "job-1"), codes.PermissionDenied, "permission", fs.ErrPermission, nil},
		"its connection":   {pb.Egress_Carry_FullMethodName, with("a", "job-1"), codes.PermissionDenied, "permission", fs.ErrPermission, nil},
		"a new method":     {"/podapi.v1.Agent/Reboot", with("a", "job-1"), codes.Unimplemented, "", errors.ErrUnsupported, nil},
		"a new service":    {"/other.v1.Files/Stat", with("a", "job-1"), codes.Unimplemented, "", errors.ErrUnsupported, nil},
		"health's watch":   {healthpb.Health_Watch_FullMethodName, with("a", "job-1"), codes.Unimplemented, "", errors.ErrUnsupported, nil},
		"health's list":    {healthpb.Health_List_FullMethodName, with("a", "job-1"), codes.Unimplemented, "", errors.ErrUnsupported, nil},
	} {
		got := d.invoke(conn, s.path, &emptypb.Empty{}, s.metadata, s.opts...)
		if got.Code() != s.code || reasonOf(got) != s.reason || s.is != nil && !errors.Is(wire.FromStatus(got.Err()), s.is) {
			t.Errorf("%s: %v with the details %v", name, got, got.Details())
		}
	}
	if got := d.invoke(conn, stat, &pb.StatRequest{Path: []byte(".")}, with("a", "job-1")); got.Code() != codes.OK {
		t.Errorf("what is allowed: %v", got)
	}
	if got := d.send("a", "POST", stat, "", "Content-Type: application/grpc", "Podagent-Sandbox: job-1"); got.StatusCode != 404 {
		t.Errorf("by HTTP/1: %d %s", got.StatusCode, got.text)
	}
}

// A message with as many parts as fit would take a hundred times as much memory.
func TestMessageOfTooManyFieldsIsRefused(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	message := &pb.EditRequest{Path: []byte("a")}
	for range 1 << 18 {
		message.Edits = append(message.Edits, &pb.Replacement{})
	}
	got := d.invoke(d.grpc(), pb.Files_Edit_FullMethodName, message, []string{"authorization", "Bearer a", "podagent-sandbox", "job-1"})
	if got.Code() != codes.InvalidArgument || !strings.Contains(got.Message(), "fields") {
		t.Errorf("%v", got)
	}
}

// No status tells another tenant's sandbox from one that there never was, whatever is called.
func TestAnotherTenantsSandboxIsNotFoundByPodapi(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	conn := d.grpc()
	found := 0
	for _, path := range append(methodsOf(t), healthpb.Health_Check_FullMethodName, "/podapi.v1.Agent/Reboot") {
		call := func(token, sandbox string) *status.Status {
			return d.invoke(conn, path, &emptypb.Empty{}, []string{"authorization", "Bearer " + token, "podagent-sandbox", sandbox})
		}
		others, none := call("o", "job-1").Proto(), call("o", "job-2")
		text := strings.ReplaceAll(protoText(others), "job-1", "job-2")
		if text != protoText(none.Proto()) {
			t.Errorf("%s: %v\nof one that never was: %v", path, others, none)
		}
		if none.Code() == codes.NotFound {
			found++
		}
		if got := call("x", "job-1"); got.Code() != codes.Unauthenticated {
			t.Errorf("%s by a stranger: %v", path, got)
		}
		if got := call("o", "acme.job-1"); got.Code() == codes.OK || got.Code() == codes.NotFound {
			t.Errorf("%s by its id: %v", path, got)
		}
	}
	if found < 25 {
		t.Errorf("%d of the methods look for the sandbox", found)
	}
}

func protoText(m proto.Message) string {
	text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return string(text)
}
