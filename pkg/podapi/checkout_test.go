package podapi_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// gitServer counts the checkouts, of which it refuses the first ones.
type gitServer struct {
	pb.UnimplementedGitServer
	calls, refused atomic.Int32
}

func (s *gitServer) Checkout(context.Context, *pb.CheckoutRequest) (*pb.CheckoutResponse, error) {
	if s.calls.Add(1) <= s.refused.Load() {
		return nil, status.Error(codes.Unavailable, "cut")
	}
	return &pb.CheckoutResponse{Commit: "abc"}, nil
}

// clientOfGit returns a client of an agent with this service; nil is an agent without it.
func clientOfGit(t *testing.T, git *gitServer) *podapi.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	if git != nil {
		pb.RegisterGitServer(server, git)
	}
	go server.Serve(listener)
	t.Cleanup(server.Stop)
	return liarClient(t, socket)
}

func TestCheckoutByAnAgentThatCannotSaysWhatToUpdate(t *testing.T) {
	c := clientOfGit(t, nil)
	_, err := c.Checkout(t.Context(), podapi.Checkout{Dir: "/w", URL: "/r", Password: "hunter2"})
	if !errors.Is(err, podapi.ErrVersion) || !strings.Contains(err.Error(), "update the agent's image") {
		t.Errorf("got %v", err)
	}
}

func TestCheckoutThatIsCutIsTriedAgain(t *testing.T) {
	git := &gitServer{}
	git.refused.Store(1)
	c := clientOfGit(t, git)
	if r, err := c.Checkout(t.Context(), podapi.Checkout{Dir: "/w", URL: "/r"}); err != nil || r.Commit != "abc" || git.calls.Load() != 2 {
		t.Errorf("%+v, %v, after %d calls", r, err, git.calls.Load())
	}
	git.refused.Store(100)
	if _, err := c.Checkout(t.Context(), podapi.Checkout{Dir: "/w", URL: "/r"}); !errors.Is(err, podapi.ErrUnavailable) || git.calls.Load() > 10 {
		t.Errorf("%v, after %d calls", err, git.calls.Load())
	}
}
