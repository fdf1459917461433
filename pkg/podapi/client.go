package podapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/tunnel"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Client calls one agent. Its methods may be called concurrently; calls share
// one connection, which is made again by itself when it breaks.
type Client struct {
	conn      connection
	agent     pb.AgentClient
	files     pb.FilesClient
	processes pb.ProcessesClient
	ports     pb.PortsClient
	lost      func(context.Context) error // as in DialOptions; may be nil
	life      atomic.Pointer[agentLife]   // nil if it is not known
	closed    atomic.Bool
	budget    tunnel.Budget // of the connections to ports
}

// DialOptions says how [Dial] reaches an agent.
type DialOptions struct {
	// Dialer opens the connection's transport, each time that it is needed.
	Dialer func(ctx context.Context) (net.Conn, error)
	// Retry, if not nil, is asked when a connection could not be made, TLS
	// included, and err says why; [ErrWrongPod] is one of the reasons, a key that
	// the agent does not accept is not. It waits for as long as is right and returns
	// nil for another try, or returns the error that the waiting calls get as
	// it is. Its ctx ends when the attempt has taken DialTimeout. Without it
	// there is one try, and the calls fail with [ErrUnavailable].
	Retry func(ctx context.Context, try int, err error) error
	// Identity, if not nil, authenticates the caller by TLS. Without one the
	// connection is as safe as the transport: a unix socket.
	Identity *Identity
	// PodUID is the pod that the agent must belong to; empty accepts any.
	PodUID string
	// Vouch, if not nil, is shown the agent's certificate (DER) on each connection
	// before anything is called, and its error ends the try. An agent makes
	// another certificate each time that it starts. It needs an Identity.
	Vouch func(ctx context.Context, certificate []byte) error
	// Config, if not nil, is set on the agent before the first call, and again
	// when it has restarted since. It needs an Identity, by whose connections
	// one start of an agent is told from the next.
	Config *Config
	// Lost, if not nil, is asked what has become of the agent when one that had
	// a process was lost, or could not be reached in time. Its error becomes
	// part of what [Process.Wait] returns: that the container was killed because
	// it was out of memory, say, or that the pod was evicted. When Retry has
	// given up, the error also says that the agent, and so the process, is
	// gone. Nil means that nothing is known. Its ctx ends after some seconds.
	Lost func(ctx context.Context) error
}

// redial is how a connection is made again: soon, because a sandbox that
// restarts is back within a second, and many may wait for it.
var redial = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// Dial returns a client of the agent that opts.Dialer reaches. It does not
// wait for the connection; the first call does. A key that the agent does not
// accept is [ErrUnauthenticated], an agent of another pod [ErrWrongPod].
func Dial(opts DialOptions) (*Client, error) {
	t, err := newTransport(opts)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///podagent",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // TLS is the transport's
		grpc.WithContextDialer(t.dial),
		grpc.WithUnaryInterceptor(t.unary),
		grpc.WithStreamInterceptor(t.stream),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: wire.DialTimeout}),
		grpc.WithWriteBufferSize(wire.ClientWriteBuffer),
		grpc.WithReadBufferSize(readBuffer(opts.Identity)),
		experimental.WithBufferPool(wire.BufferPool()),
		grpc.WithInitialWindowSize(wire.ClientWindow),
		grpc.WithInitialConnWindowSize(wire.ClientWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: wire.KeepaliveTime, Timeout: wire.KeepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
	)
	if err != nil {
		return nil, err
	}
	return newClient(conn, opts.Lost), nil
}

// readBuffer returns how many bytes of HTTP/2 are read at once: none more than are
// asked for from TLS, which has a buffer of its own for what it decrypted.
func readBuffer(identity *Identity) int {
	if identity != nil {
		return 0
	}
	return wire.ReadBuffer
}

func newClient(conn connection, lost func(context.Context) error) *Client {
	return &Client{
		conn:      conn,
		agent:     pb.NewAgentClient(conn),
		files:     pb.NewFilesClient(conn),
		processes: pb.NewProcessesClient(conn),
		ports:     pb.NewPortsClient(conn),
		lost:      lost,
	}
}

// connection is what calls are made over.
type connection interface {
	grpc.ClientConnInterface
	Close() error
}

// Deferred returns a client of an agent that need not be there yet: each call
// asks open for the client that makes it, and fails with open's error. Close is
// handed to shut.
func Deferred(open func(context.Context) (*Client, error), shut func() error) *Client {
	d := &deferred{open, shut}
	return newClient(d, d.lost)
}

type deferred struct {
	open func(context.Context) (*Client, error)
	shut func() error
}

func (d *deferred) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	c, err := d.open(ctx)
	if err != nil {
		return err
	}
	return c.conn.Invoke(ctx, method, args, reply, opts...)
}

func (d *deferred) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	return c.conn.NewStream(ctx, desc, method, opts...)
}

func (d *deferred) lost(ctx context.Context) error {
	c, err := d.open(ctx)
	if err != nil {
		return nil
	}
	return c.whyLost(ctx)
}

func (d *deferred) Close() error { return d.shut() }

// Close ends the connection and the calls under way. Processes run on.
func (c *Client) Close() error {
	c.closed.Store(true) // so that no command seeks another connection
	return c.conn.Close()
}

// Healthy returns nil if the agent says that it serves (grpc.health.v1). It
// works on the agent's health socket, too.
func (c *Client) Healthy(ctx context.Context) error {
	r, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return wire.FromStatus(err)
	}
	if r.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: health is %s", ErrUnavailable, r.Status)
	}
	return nil
}

// pathError returns the error of a call about a path: what the agent said, or
// what the transport said with the operation and path added.
func pathError(op, path string, err error) error {
	if err = wire.FromStatus(err); err == nil {
		return nil
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	if errors.As(err, &pathErr) || errors.As(err, &linkErr) {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// cutError returns what the end of a stream before its final message means:
// ErrCut for a clean end, the status's error for any other.
func cutError(err error) error {
	if err == io.EOF {
		return ErrCut
	}
	return err
}

func attrFromProto(a *pb.Attr) fsops.Attr {
	return fsops.Attr{
		Path:    string(a.GetPath()),
		Size:    a.GetSize(),
		Mode:    fs.FileMode(a.GetMode()),
		ModTime: time.Unix(0, a.GetMtime()),
		UID:     a.GetUid(),
		GID:     a.GetGid(),
		Target:  string(a.GetTarget()),
		ETag:    a.GetEtag(),
	}
}

func sumFromProto(s *pb.Sum) fsops.Sum {
	return fsops.Sum{Size: s.GetSize(), CRC32C: s.GetCrc32C()}
}

func sumToProto(s fsops.Sum) *pb.Sum { return &pb.Sum{Size: s.Size, Crc32C: s.CRC32C} }

// toBytes returns texts as the wire has them: bytes, which need not be UTF-8.
func toBytes(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}
