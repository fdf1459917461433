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

// Client calls one agent. Its methods may be called concurrently. They share a connection, which
// ends after a minute or two without calls, and is made anew for a call.
type Client struct {
	conn      connection
	agent     pb.AgentClient
	files     pb.FilesClient
	processes pb.ProcessesClient
	ports     pb.PortsClient
	egress    pb.EgressClient
	git       pb.GitClient
	points    pb.CheckpointsClient
	lost      func(context.Context) error // as in DialOptions; may be nil
	// configuring notes that the agent gets a configuration; nil without a transport of its own.
	configuring func(Config) (done func())
	life        atomic.Pointer[agentLife] // nil if it is not known
	closed      atomic.Bool
	budget      tunnel.Budget // of the connections to ports
}

// DialOptions says how [Dial] reaches an agent.
type DialOptions struct {
	Dial func(ctx context.Context) (net.Conn, error) // opens the transport of each connection
	// Retry, if not nil, is called after each failed try, a TLS failure or [ErrWrongPod] included, but not
	// after [ErrUnauthenticated]. It waits, and returns nil for another try, or the error that the waiting
	// calls get. All tries together, and ctx, end after 20 s. Without Retry there is one, and calls then
	// fail with [ErrUnavailable].
	Retry    func(ctx context.Context, try int, err error) error
	Identity *Identity // of the caller, for TLS; with nil the transport must be safe
	PodUID   string    // of the pod that the agent must belong to; empty accepts any
	// Vouch, if not nil, sees the agent's certificate (DER) before any call on a
	// connection. Its error ends the try. It needs an Identity.
	Vouch func(ctx context.Context, certificate []byte) error
	// Config, if not nil, returns what each start of the agent gets before its first call; nil
	// is nothing. It needs an Identity, whose certificates tell one start from the next.
	Config  func() *Config
	Lasting bool // keeps the connection without calls, too, so that Config follows each start at once
	// Lost, if not nil, is asked what became of an agent with a process that was lost or not
	// reached in time. Its error, for example that the pod was evicted, becomes part of the error
	// of [Process.Wait]. When Retry has given up, it also means that the agent is gone, and the
	// process with it. Nil means that nothing is known. Its ctx ends after 10 s.
	Lost func(ctx context.Context) error
	GRPC []grpc.DialOption // for the connection, such as what a gateway needs: an authority, metadata, interceptors
}

// redial is how soon a connection is made anew: a sandbox that restarts is back
// within a second, and many may wait for it.
var redial = backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 3 * time.Second}

// Dial returns a client of the agent that opts.Dial reaches. It does not wait for
// the connection. The first call does, and fails with [ErrUnauthenticated] if the
// agent does not accept the key, and with [ErrWrongPod] if the agent belongs to
// another pod.
func Dial(opts DialOptions) (*Client, error) {
	t, err := newTransport(opts)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///podagent", append([]grpc.DialOption{
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
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithIdleTimeout(idleTimeOf(opts)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: wire.KeepaliveTime, Timeout: wire.KeepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(wire.Codec()), grpc.MaxCallRecvMsgSize(wire.MaxMessage), grpc.MaxCallSendMsgSize(wire.MaxMessage)),
	}, opts.GRPC...)...)
	if err != nil {
		return nil, err
	}
	c := newClient(conn, opts.Lost)
	c.configuring = t.configuring
	return c, nil
}

// idleTimeOf returns how long a connection may be without a call; 0 is for ever.
func idleTimeOf(opts DialOptions) time.Duration {
	if opts.Lasting {
		return 0
	}
	return idleTime
}

// readBuffer returns how many bytes of HTTP/2 the client reads at once. With TLS it
// needs no buffer, because TLS has one for the decrypted data.
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
		egress:    pb.NewEgressClient(conn),
		git:       pb.NewGitClient(conn),
		points:    pb.NewCheckpointsClient(conn),
		lost:      lost,
	}
}

// connection carries calls.
type connection interface {
	grpc.ClientConnInterface
	Close() error
}

// Deferred returns a client of an agent that need not exist yet. Each call asks
// open for its client, or fails with open's error. Close calls shut.
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

// Over returns a client whose calls conn carries, such as one that lets pass what its user may. Close
// calls shut.
func Over(conn grpc.ClientConnInterface, shut func() error) *Client {
	return newClient(&over{conn, shut}, nil)
}

type over struct {
	grpc.ClientConnInterface
	shut func() error
}

func (o *over) Close() error { return o.shut() }

// Conn carries calls of podapi.proto, for those who pass on others' calls.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Close ends the connection and the calls under way. Processes run on.
func (c *Client) Close() error {
	c.closed.Store(true) // so that no command seeks another connection
	return c.conn.Close()
}

// Healthy returns nil if the agent says that it serves (grpc.health.v1). The call does
// not end the agent's idle time ([Info].Idle).
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

// pathError returns the error of a call about a path: the agent's, or the
// transport's with the operation and the path.
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

// cutError returns the error of a stream that ended by err before its final
// message: ErrCut for a clean end, err for any other.
func cutError(err error) error {
	if err == io.EOF {
		return ErrCut
	}
	return err
}

func sumFromProto(s *pb.Sum) fsops.Sum {
	return fsops.Sum{Size: s.GetSize(), CRC32C: s.GetCrc32C()}
}

func sumToProto(s fsops.Sum) *pb.Sum { return &pb.Sum{Size: s.Size, Crc32C: s.CRC32C} }

// toBytes returns texts as the wire has them: bytes, because they need not be
// UTF-8.
func toBytes(texts []string) [][]byte {
	out := make([][]byte, len(texts))
	for i, s := range texts {
		out[i] = []byte(s)
	}
	return out
}
