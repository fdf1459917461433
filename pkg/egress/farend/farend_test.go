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

// liar is an agent that announces connections without end, and never lets one be opened.
type liar struct {
	pb.UnimplementedEgressServer
}

func (liar) Serve(stream grpc.BidiStreamingServer[pb.EgressServeRequest, pb.EgressServeResponse]) error {
	if err := stream.Send(&pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Serving{Serving: &pb.EgressServing{}}}); err != nil {
		return err
	}
	for id := uint64(1); ; id++ {
		if err := stream.Send(&pb.EgressServeResponse{Kind: &pb.EgressServeResponse_Connection{Connection: &pb.EgressConnection{Id: id}}}); err != nil {
			return err
		}
	}
}

func (liar) Carry(stream grpc.BidiStreamingServer[pb.DialRequest, pb.DialResponse]) error {
	<-stream.Context().Done()
	return stream.Context().Err()
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

func TestAgentThatAnnouncesWithoutEndIsLeft(t *testing.T) {
	client := clientOf(t, func(s *grpc.Server) { pb.RegisterEgressServer(s, liar{}) })
	ctx, cancel := context.WithTimeoutCause(t.Context(), hung, errors.New("hung"))
	defer cancel()
	far, err := farend.Listen(ctx, client, farend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if conn, err := far.Accept(); !errors.Is(err, podapi.ErrProtocol) {
		t.Errorf("it accepts %v, %v", conn, err)
	}
}

func TestFarEndOfAnOldAgentSaysSo(t *testing.T) {
	client := clientOf(t, func(*grpc.Server) {})
	if _, err := farend.Listen(t.Context(), client, farend.Options{}); !errors.Is(err, podapi.ErrVersion) {
		t.Errorf("the error is %v", err)
	}
}
