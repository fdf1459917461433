package launcher

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// silentAgent answers no call by its first connections, though it keeps them.
type silentAgent struct {
	pb.UnimplementedAgentServer
	silent  int32 // connections
	dialled atomic.Int32
	conns   chan net.Conn
}

func (a *silentAgent) Info(ctx context.Context, _ *pb.InfoRequest) (*pb.InfoResponse, error) {
	if a.dialled.Load() <= a.silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &pb.InfoResponse{Version: "v1", ProtocolMajor: 1, BootId: "b", Workdir: []byte("/w"), Os: "linux", Arch: "amd64", Executable: []byte("/p")}, nil
}

// Accept implements [net.Listener].
func (a *silentAgent) Accept() (net.Conn, error) {
	conn, open := <-a.conns
	if !open {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// Close implements [net.Listener].
func (a *silentAgent) Close() error { return nil }

// Addr implements [net.Listener].
func (a *silentAgent) Addr() net.Addr { return &net.UnixAddr{} }

// connect returns a client of the agent, and the pod whose it is.
func (a *silentAgent) connect(t *testing.T) (*openPod, *podapi.Client) {
	a.conns = make(chan net.Conn, 10)
	server := grpc.NewServer()
	pb.RegisterAgentServer(server, a)
	go func() { _ = server.Serve(a) }()
	o := (&cluster{}).openPod(&corev1.Pod{})
	client, err := podapi.Dial(podapi.DialOptions{Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		a.dialled.Add(1)
		a.conns <- theirs
		o.mu.Lock()
		defer o.mu.Unlock()
		o.conn = &podConn{ours, o.way}
		return o.conn, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		close(a.conns)
		server.Stop()
	})
	return o, client
}

// A connection by which calls have no answer, though it is kept, costs less than the time that there is.
func TestSilentConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, client := (&silentAgent{silent: 2}).connect(t)
		ctx, cancel := context.WithTimeout(t.Context(), DefaultReadyTimeout)
		defer cancel()
		err := o.awaitAnswer(ctx, func(ctx context.Context) error {
			_, err := client.Info(ctx)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}
