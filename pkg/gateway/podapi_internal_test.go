package gateway

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/podagent/podagent/pkg/launcher/errclass"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Whoever adds a method to the contract decides here whether tenants may call it.
func TestEachMethodOfPodapiIsDecidedAbout(t *testing.T) {
	decided := map[string]bool{healthpb.Health_Check_FullMethodName: true}
	services := pb.File_podapi_proto.Services()
	for i := range services.Len() {
		for j := range services.Get(i).Methods().Len() {
			method := services.Get(i).Methods().Get(j)
			path := "/" + string(services.Get(i).FullName()) + "/" + string(method.Name())
			decided[path] = true
			m, ok := podapiMethods[path]
			if !ok || (m.read == nil) == (m.refused == "") {
				t.Errorf("nobody has decided about %s", path)
			}
			if m.read != nil && (m.ServerStreams != method.IsStreamingServer() || m.ClientStreams != method.IsStreamingClient()) {
				t.Errorf("%s is another kind of stream", path)
			}
		}
	}
	for path := range podapiMethods {
		if !decided[path] {
			t.Errorf("there is no method %s", path)
		}
	}
	for path, last := range map[string]struct {
		in    proto.Message
		field protoreflect.Name
	}{
		pb.Processes_Exec_FullMethodName: {&pb.ExecResponse{}, "exit"},
		pb.Files_Write_FullMethodName:    {&pb.WriteReply{}, "end"},
		pb.Files_Push_FullMethodName:     {&pb.PushReply{}, "end"},
	} {
		if lastFields[path] != last.in.ProtoReflect().Descriptor().Fields().ByName(last.field).Number() {
			t.Errorf("the last field of %s has another number", path)
		}
	}
}

func TestCodesThatAgentsMakeUpAreUnknown(t *testing.T) {
	for code, want := range map[codes.Code]string{codes.OK: "OK", codes.NotFound: "NOT_FOUND", 17: "UNKNOWN", 1 << 31: "UNKNOWN"} {
		if got := codeName(code); got != want {
			t.Errorf("%d is %s", code, got)
		}
	}
}

// A hostile agent may add what looks like the gateway's own.
func TestDetailsOfAgentsDoNotPass(t *testing.T) {
	s, err := status.New(codes.NotFound, "none").WithDetails(
		&errdetails.ErrorInfo{Reason: "no_sandbox", Domain: errclass.Domain}, &pb.Error{Class: pb.Class_CLASS_NOT_EXIST})
	if err != nil {
		t.Fatal(err)
	}
	got := agentStatus(s).Details()
	if len(got) != 1 || got[0].(*pb.Error).Class != pb.Class_CLASS_NOT_EXIST {
		t.Errorf("%v pass", got)
	}
}
