package podapi_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// listening is an agent that answers the start of a command once it knows what follows
// the start: next gets the error of the second Recv.
type listening struct {
	pb.UnimplementedAgentServer
	pb.UnimplementedProcessesServer
	next chan error
}

func (l *listening) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	return honestInfo(), nil
}

func (l *listening) Exec(stream grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	started := &pb.ExecStarted{ExecId: first.GetStart().ExecId, BootId: "boot", Pid: 7, StdinOpen: first.GetStart().Stdin}
	if !first.GetStart().Stdin {
		_, err := stream.Recv()
		l.next <- err
	}
	if err := stream.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: started}}); err != nil {
		return err
	}
	if first.GetStart().Stdin {
		_, err := stream.Recv()
		l.next <- err
	}
	return stream.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Exit{Exit: &pb.ExecExit{Reason: pb.ExitReason_EXIT_REASON_EXITED}}})
}

// A stream that the agent ends while the request side is open is reset, which costs a
// message for each command.
func TestCommandWithoutInputClosesItsRequestSide(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	agent := &listening{next: make(chan error, 1)}
	server := grpc.NewServer()
	pb.RegisterAgentServer(server, agent)
	pb.RegisterProcessesServer(server, agent)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	c := liarClient(t, socket)
	if err := c.Command(t.Context(), "true").Run(); err != nil {
		t.Fatal(err)
	}
	if err := <-agent.next; !errors.Is(err, io.EOF) {
		t.Errorf("after the start of a command without input comes %v", err)
	}
	cmd := c.Command(t.Context(), "cat")
	cmd.Stdin = strings.NewReader("input")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := <-agent.next; err != nil {
		t.Errorf("after the start of a command with input comes %v", err)
	}
}

// The request side is closed when the caller detaches: another stream says so.
func TestDetachFromACommandWithoutInputIsKnownToTheAgent(t *testing.T) {
	leakCheck(t)
	w := newCable(t)
	cmd := w.client(t).Shell(t.Context(), "echo begun; exec yes")
	out := begun(t, cmd)
	if err := cmd.Process.Detach(); err != nil {
		t.Errorf("Detach: %v", err)
	}
	go io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != podapi.ErrDetached {
		t.Errorf("Wait: %v", err)
	}
	// Nobody's position holds it up.
	before := outputOf(t, w.direct(t), cmd.ID)
	eventually(t, "more output than is kept", func() bool {
		return outputOf(t, w.direct(t), cmd.ID) > before+100<<20
	})
	if err := w.direct(t).Signal(t.Context(), cmd.ID, 9); err != nil {
		t.Error(err)
	}
}

// outputOf returns how much a process has printed.
func outputOf(t *testing.T, c *podapi.Client, id string) int64 {
	t.Helper()
	list, err := c.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.ID == id {
			return p.Stdout
		}
	}
	t.Fatalf("no process %s", id)
	return 0
}
