package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/test/bufconn"

	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// freed is a pool that says when a buffer comes back.
type freed chan struct{}

func (f freed) Get(length int) *[]byte { return new(make([]byte, length)) }
func (f freed) Put(*[]byte)            { close(f) }

// A message of some megabytes must not stay for as long as a command runs.
func TestFirstMessageIsForgottenWhenItIsSent(t *testing.T) {
	const hung = time.Minute
	listener := bufconn.Listen(1 << 20)
	agent := grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec()), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		var m rawgrpc.Message
		if err := s.RecvMsg(&m); err != nil {
			return err
		}
		m.Data.Free()
		<-s.Context().Done() // a command that runs
		return nil
	}))
	go func() { _ = agent.Serve(listener) }()
	defer agent.Stop()
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	body, more := io.Pipe()
	defer more.Close()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	pool := make(freed)
	c := &podapiCall{
		Context: ctx, path: pb.Processes_Exec_FullMethodName, method: podapiMethods[pb.Processes_Exec_FullMethodName],
		Stream: rawgrpc.Accept(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", body), hung),
		first:  mem.NewBuffer(new(make([]byte, 1<<20)), pool),
	}
	ended := make(chan error, 1)
	go func() { ended <- c.passOn(conn, context.Background()) }()
	select {
	case <-pool:
	case err := <-ended:
		t.Errorf("the call ends: %v", err)
	case <-time.After(hung):
		t.Error("the message stays")
	}
	leave()
	if err := <-ended; err == nil {
		t.Error("the call succeeds")
	}
}
