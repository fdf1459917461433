package podapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// listening is an agent that runs nothing, and tells what its callers send.
type listening struct {
	pb.UnimplementedAgentServer
	pb.UnimplementedProcessesServer
	// after gets what follows the start of a command: the error of the next Recv.
	after chan error
	// late is how many calls that attach come before the agent has taken up the one that
	// started the command.
	late int

	mu       sync.Mutex
	reader   string
	replaced chan struct{} // closed when another call takes the place of the first
	detached int           // how often a caller of the same reader has detached
}

func (l *listening) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	return honestInfo(), nil
}

func (l *listening) Exec(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if attach := first.GetAttach(); attach != nil {
		return l.attach(stream, attach)
	}
	return l.start(stream, first.GetStart())
}

// start answers, and ends the call when the command has ended or another call has come.
func (l *listening) start(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse], start *pb.ExecStart) error {
	l.mu.Lock()
	l.reader = start.Reader
	l.mu.Unlock()
	started := &pb.ExecStarted{ExecId: start.ExecId, BootId: "boot", Pid: 7, StdinOpen: start.Stdin}
	if err := stream.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: started}}); err != nil {
		return err
	}
	_, err := stream.Recv()
	l.after <- err
	if string(start.Argv[0]) == "true" || start.Stdin {
		return stream.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Exit{Exit: &pb.ExecExit{Reason: pb.ExitReason_EXIT_REASON_EXITED}}})
	}
	select {
	case <-l.replaced:
		return status.Error(codes.Unavailable, "another call has taken the place of this one")
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
}

func (l *listening) attach(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse], attach *pb.ExecAttach) error {
	next, err := stream.Recv()
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if next.GetDetach() == nil || attach.Reader != l.reader {
		return status.Error(codes.InvalidArgument, "this is not the reader, and does not detach")
	}
	if l.detached++; l.detached == l.late+1 {
		close(l.replaced)
	}
	return stream.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Detached{Detached: &pb.ExecDetached{}}})
}

func newListening(t *testing.T, late int) (*listening, *podapi.Client) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	agent := &listening{after: make(chan error, 10), late: late, replaced: make(chan struct{})}
	server := grpc.NewServer()
	pb.RegisterAgentServer(server, agent)
	pb.RegisterProcessesServer(server, agent)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return agent, liarClient(t, socket)
}

// follows returns what followed the start of a command.
func (l *listening) follows(t *testing.T) error {
	t.Helper()
	select {
	case err := <-l.after:
		return err
	case <-time.After(hung):
		t.Fatal("nothing follows the start")
		return nil
	}
}

// A stream that the agent ends while the request side is open is reset, which costs a
// message for each command.
func TestCommandWithoutInputClosesItsRequestSide(t *testing.T) {
	agent, c := newListening(t, 0)
	run := c.Command(t.Context(), "true")
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	if err := agent.follows(t); !errors.Is(err, io.EOF) {
		t.Errorf("after the start of a command without input comes %v", err)
	}
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
	run = c.Command(t.Context(), "cat")
	run.Stdin = strings.NewReader("input")
	if err := run.Run(); err != nil {
		t.Error(err)
	}
	if err := agent.follows(t); err != nil {
		t.Errorf("after the start of a command with input comes %v", err)
	}
}

// Another call tells the agent that the caller detaches, and is repeated until it ends the
// stream whose request side is closed.
func TestDetachFromACommandWithoutInputIsKnownToTheAgent(t *testing.T) {
	for _, late := range []int{0, 2} {
		agent, c := newListening(t, late)
		run := c.Command(t.Context(), "sleep", "300")
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		both := make(chan error, 2)
		for range 2 {
			go func() { both <- run.Process.Detach() }()
		}
		if err := errors.Join(<-both, <-both); err != nil {
			t.Errorf("Detach: %v", err)
		}
		if err := run.Wait(); err != podapi.ErrDetached {
			t.Errorf("Wait: %v", err)
		}
		agent.mu.Lock()
		if agent.detached <= late {
			t.Errorf("the agent was told %d times, want more than %d", agent.detached, late)
		}
		agent.mu.Unlock()
	}
}
