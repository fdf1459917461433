package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	corev1 "k8s.io/api/core/v1"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// bootID is that of all agents, which start with this program.
const bootID = "simulated"

// agents answers for the agents of all pods, on one gRPC server.
type agents struct {
	pb.UnimplementedAgentServer
	pb.UnimplementedProcessesServer
	accepted chan net.Conn
}

func newAgents() *agents {
	a := &agents{accepted: make(chan net.Conn)}
	server := grpc.NewServer(
		grpc.ForceServerCodecV2(wire.Codec()),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: wire.KeepaliveTime / 2, PermitWithoutStream: true}),
	)
	pb.RegisterAgentServer(server, a)
	pb.RegisterProcessesServer(server, a)
	go func() { _ = server.Serve(a) }() // as long as the program runs
	return a
}

// serve answers on stream as the agent of a pod, until the caller leaves.
func (a *agents) serve(ctx context.Context, pod *corev1.Pod, stream stream) error {
	config, err := agentTLS(pod)
	if err != nil {
		return err
	}
	conn := &conn{stream: stream, pod: address(pod.UID), closed: make(chan struct{})}
	secured := tls.Server(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return err
	}
	a.accepted <- secured
	<-conn.closed
	return nil
}

// agentTLS returns the TLS of the pod's agent: its certificate names the pod, and it accepts
// the keys of the pod.
func agentTLS(pod *corev1.Pod) (*tls.Config, error) {
	var keys []wire.AuthorizedKey
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name != "PODAGENT_AUTHORIZED_KEY" {
			continue
		}
		for text := range strings.SplitSeq(v.Value, ",") {
			key, err := wire.ParseAuthorizedKey(text)
			if err != nil {
				return nil, err
			}
			keys = append(keys, key)
		}
	}
	config, err := wire.AgentTLS(string(pod.UID), wire.NewAccepted(keys))
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	config.NextProtos = []string{"h2"} // callers speak gRPC
	return config, nil
}

// Accept, Close and Addr make agents the listener of its server.
func (a *agents) Accept() (net.Conn, error) { return <-a.accepted, nil }
func (a *agents) Close() error              { return nil }
func (a *agents) Addr() net.Addr            { return address("agents") }

// Info describes an agent like those of this version.
func (a *agents) Info(ctx context.Context, _ *pb.InfoRequest) (*pb.InfoResponse, error) {
	caller, _ := peer.FromContext(ctx) // every call has one
	return &pb.InfoResponse{
		Version: wire.Version(), ProtocolMajor: wire.ProtocolMajor, ProtocolMinor: wire.ProtocolMinor,
		BootId: bootID, PodUid: caller.Addr.String(), Workdir: []byte("/workspace"), Os: "linux", Arch: "amd64",
	}, nil
}

// Configure changes nothing.
func (a *agents) Configure(context.Context, *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	return &pb.ConfigureResponse{}, nil
}

// Exec says that the command has succeeded.
func (a *agents) Exec(call grpc.BidiStreamingServer[pb.ExecRequest, pb.ExecResponse]) error {
	request, err := call.Recv()
	if err != nil {
		return err
	}
	started := &pb.ExecStarted{ExecId: request.GetStart().GetExecId(), BootId: bootID, Pid: 1}
	if err := call.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Started{Started: started}}); err != nil {
		return err
	}
	exit := &pb.ExecExit{Reason: pb.ExitReason_EXIT_REASON_EXITED}
	return call.Send(&pb.ExecResponse{Kind: &pb.ExecResponse_Exit{Exit: exit}})
}

type stream = io.ReadWriteCloser

// conn is the stream of a port-forward as a connection to a pod's agent. It has no deadlines.
type conn struct {
	stream
	pod    address
	once   sync.Once
	closed chan struct{}
}

func (c *conn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.stream.Close()
}

// The two ends of a connection are called as its pod's UID, so that each call knows it.
func (c *conn) LocalAddr() net.Addr              { return c.pod }
func (c *conn) RemoteAddr() net.Addr             { return c.pod }
func (c *conn) SetDeadline(time.Time) error      { return nil }
func (c *conn) SetReadDeadline(time.Time) error  { return nil }
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

type address string

func (address) Network() string  { return "pod" }
func (a address) String() string { return string(a) }
