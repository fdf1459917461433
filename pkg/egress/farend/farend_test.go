package farend_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// hung is how long a test waits for something that must happen.
const hung = time.Minute

// fickle is an agent that changes without end who serves.
type fickle struct{ pb.UnimplementedEgressServer }

func (fickle) Serve(stream grpc.BidiStreamingServer[pb.EgressServeRequest, pb.EgressServeResponse]) error {
	for {
		for _, news := range []*pb.EgressServeResponse{
			{Kind: &pb.EgressServeResponse_Serving{Serving: &pb.EgressServing{}}},
			{Kind: &pb.EgressServeResponse_Standby{Standby: &pb.EgressStandby{}}},
		} {
			if err := stream.Send(news); err != nil {
				return err
			}
		}
	}
}

// clientOf returns a client of an agent with the services that register adds.
func clientOf(t *testing.T, register func(*grpc.Server)) *podapi.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestAgentThatChangesWithoutEndIsLeft(t *testing.T) {
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterEgressServer(s, fickle{}) })
	ctx, cancel := context.WithTimeoutCause(t.Context(), hung, errors.New("hung"))
	defer cancel()
	told := 0
	far, err := farend.Listen(ctx, client, farend.Options{Changed: func(farend.State) { told++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if conn, err := far.Accept(); !errors.Is(err, podapi.ErrProtocol) {
		t.Errorf("it accepts %v, %v", conn, err)
	}
	if told > 2000 {
		t.Errorf("its owner was told %d times", told)
	}
}

func TestFarEndOfAnOldAgentSaysSo(t *testing.T) {
	client := clientOf(t, func(*grpc.Server) {})
	if _, err := farend.Listen(t.Context(), client, farend.Options{}); !errors.Is(err, podapi.ErrVersion) {
		t.Errorf("the error is %v", err)
	}
}
