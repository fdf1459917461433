package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// acceptOne returns a port, and a channel that tells how the first connection to it
// ends.
func acceptOne(t *testing.T) (port uint32, end <-chan error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	ends := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = io.Copy(io.Discard, conn)
		ends <- err
	}()
	return uint32(l.Addr().(*net.TCPAddr).Port), ends
}

func dialOpen(port uint32) *pb.DialRequest {
	return &pb.DialRequest{Kind: &pb.DialRequest_Open{Open: &pb.DialOpen{Port: port, Limit: 1 << 20}}}
}

func dialData(data string) *pb.DialRequest {
	return &pb.DialRequest{Kind: &pb.DialRequest_Data{Data: []byte(data)}}
}

var (
	dialEnd   = &pb.DialRequest{Kind: &pb.DialRequest_End{End: &pb.DialEnd{}}}
	dialClose = &pb.DialRequest{Kind: &pb.DialRequest_Close{Close: &pb.DialClose{}}}
)

func TestDialThatEndsWronglyResetsTheSocket(t *testing.T) {
	_, socket := serveTest(t, nil)
	conn := raw(t, socket)
	for what, test := range map[string]struct {
		after []*pb.DialRequest
		want  error // with an error, the server sees a reset; without one, an end
		early bool  // the server sees an end before the error, so no reset
	}{
		"ends before close":         {[]*pb.DialRequest{dialData("begin")}, podapi.ErrCut, false},
		"only says end":             {[]*pb.DialRequest{dialData("begin"), dialEnd}, podapi.ErrCut, true},
		"goes on after end":         {[]*pb.DialRequest{dialEnd, dialData("more")}, syscall.EINVAL, true},
		"sends more than it may":    {[]*pb.DialRequest{dialData(strings.Repeat("x", 1<<20))}, syscall.EINVAL, false},
		"opens twice":               {[]*pb.DialRequest{dialOpen(1)}, syscall.EINVAL, false},
		"sends an empty message":    {[]*pb.DialRequest{{}}, syscall.EINVAL, false},
		"says close":                {[]*pb.DialRequest{dialData("begin"), dialClose}, nil, false},
		"sends nothing, and closes": {[]*pb.DialRequest{dialData(""), dialClose}, nil, false},
	} {
		port, end := acceptOne(t)
		err := dialStreamOf(t, conn, append([]*pb.DialRequest{dialOpen(port)}, test.after...)...)
		if !errors.Is(err, test.want) {
			t.Errorf("a call that %s: %v, want %v", what, err, test.want)
		}
		if got := <-end; (got == nil) != (test.want == nil) && !test.early {
			t.Errorf("after a call that %s the server sees %v", what, got)
		}
	}
	for what, first := range map[string]*pb.DialRequest{"data": dialData("x"), "no port": dialOpen(0), "a port too large": dialOpen(65536)} {
		if err := dialStreamOf(t, conn, first); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("a call that begins with %s: %v", what, err)
		}
	}
	if err := dialStreamOf(t, conn); !errors.Is(err, podapi.ErrCut) {
		t.Errorf("a call without a message: %v", err)
	}
}

// dialStreamOf sends messages of Dial and returns how the call ended: nil only
// after closed.
func dialStreamOf(t *testing.T, conn *grpc.ClientConn, messages ...*pb.DialRequest) error {
	t.Helper()
	stream, err := pb.NewPortsClient(conn).Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if stream.Send(m) != nil {
			break // the reply gives the reason
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	closed := false
	for {
		r, err := stream.Recv()
		if err == io.EOF && closed {
			return nil
		}
		if err != nil {
			return wire.FromStatus(err)
		}
		closed = r.GetClosed() != nil
	}
}

func TestShutdownDoesNotWaitForConnections(t *testing.T) {
	port, end := acceptOne(t)
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var client *podapi.Client
	t.Run("agent", func(t *testing.T) {
		_, socket := serveTest(t, nil)
		client = dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
		conn, err := client.Dial(ctx, int(port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "begin"); err != nil {
			t.Fatal(err)
		}
	})
	select {
	case err := <-end:
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the server sees %v", err)
		}
	case <-ctx.Done():
		t.Error("the connection outlives its agent")
	}
}

// framesSent is a stream that notes what is sent.
type framesSent struct {
	tunnel.Stream
	frames []tunnel.Frame
}

func (s *framesSent) Send(f tunnel.Frame) error {
	s.frames = append(s.frames, f)
	return nil
}

// A server that the agent ends when it stops has not ended its side of a connection.
func TestServerThatEndsWithTheAgentCutsItsConnections(t *testing.T) {
	for _, stops := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		socket, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		a := &Agent{stopping: make(chan struct{})}
		if stops {
			close(a.stopping)
		}
		server.Close()
		stream := &framesSent{}
		carrier := tunnel.New(stream, &tunnel.Budget{})
		carrier.Allow(1)
		err = a.sendSocket(carrier, socket.(*net.TCPConn))
		if stops != errors.Is(err, wire.ErrUnavailable) || stops != (len(stream.frames) == 0) {
			t.Errorf("stops: %v: %v, %+v", stops, err, stream.frames)
		}
	}
}
