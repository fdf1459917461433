package podapi_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func TestStatsOfAnAgentThatIsTooOldSayWhatToUpdate(t *testing.T) {
	_, err := clientOfGit(t, nil).Stats(t.Context())
	if !errors.Is(err, podapi.ErrVersion) || !strings.Contains(err.Error(), "update the agent's image") {
		t.Errorf("got %v", err)
	}
}

// statsServer answers with these stats.
type statsServer struct {
	pb.UnimplementedAgentServer
	answer *pb.StatsResponse
}

func (s *statsServer) Stats(context.Context, *pb.StatsRequest) (*pb.StatsResponse, error) {
	return s.answer, nil
}

func TestStatsTellZeroFromUnknown(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	pb.RegisterAgentServer(server, &statsServer{answer: &pb.StatsResponse{
		Time: 1, Cpu: new(int64(0)), CpuLimit: new(int64(1_500_000_000)), Pids: new(int64(0)), InodesUsed: new(int64(7)),
	}})
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	got, err := liarClient(t, socket).Stats(t.Context())
	want := podapi.Stats{Time: time.Unix(0, 1), CPU: new(time.Duration(0)), CPULimit: new(1.5), PIDs: new(int64(0)), InodesUsed: new(int64(7))}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
