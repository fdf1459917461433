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
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Client calls one agent. Its methods may be called concurrently; calls share
// one connection, which is made again by itself when it breaks.
type Client struct {
	conn      connection
	agent     pb.AgentClient
	files     pb.FilesClient
	processes pb.ProcessesClient
	lost      func(context.Context) error // as in DialOptions; may be nil
	life      atomic.Pointer[agentLife]   // nil if it is not known
	closed    atomic.Bool
}

// DialOptions says how [Dial] reaches an agent.
type DialOptions struct {
	// Dialer opens the connection's transport, each time that it is needed.
	Dialer func(ctx context.Context) (net.Conn, error)
	// Retry, if not nil, is asked when a connection could not be made, TLS
	// included, and err says why. It waits for as long as is right and returns
	// nil for another try, or returns the error that the waiting calls get as
	// it is. Its ctx ends when the attempt has taken DialTimeout. Without it
	// there is one try, and the calls fail with [ErrUnavailable].
	Retry func(ctx context.Context, try int, err error) error
	// Identity, if not nil, authenticates the caller by TLS. Without one the
	// connection is as safe as the transport: a unix socket.
	Identity *Identity
	// PodUID is the pod that the agent must belong to; empty accepts any.
	PodUID string
	// Config, if not nil, is set on the agent before the first call, and again
	// when it has restarted since. It needs an Identity, by whose connections
	// one start of an agent is told from the next.
	Config *Config
	// Lost, if not nil, is asked what has become of the agent when one that had
	// a process was lost, or could not be reached in time. Its error becomes
	// part of what [Cmd.Wait] returns: that the container was killed because
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
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: redial, MinConnectTimeout: DialTimeout}),
		grpc.WithWriteBufferSize(WriteBuffer),
		grpc.WithInitialWindowSize(ClientWindow),
		grpc.WithInitialConnWindowSize(ClientWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: KeepaliveTime, Timeout: KeepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec()), grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	)
	if err != nil {
		return nil, err
	}
	return newClient(conn, opts.Lost), nil
}

func newClient(conn connection, lost func(context.Context) error) *Client {
	return &Client{
		conn:      conn,
		agent:     pb.NewAgentClient(conn),
		files:     pb.NewFilesClient(conn),
		processes: pb.NewProcessesClient(conn),
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

// Info describes an agent.
type Info struct {
	// Version is the program's version.
	Version string
	// ProtocolMajor and ProtocolMinor are the contract's.
	ProtocolMajor, ProtocolMinor int
	// BootID changes whenever the agent starts anew.
	BootID string
	// PodUID is the pod's, empty outside of Kubernetes.
	PodUID string
	// UID and GID are what the agent, and so every process, runs as.
	UID, GID int
	// Workdir is what relative paths start at.
	Workdir string
	// Idle is how long ago the agent last worked; 0 while it works.
	Idle time.Duration
	// Capabilities name what the agent offers beyond protocol 1.0.
	Capabilities []string
	// Limits are the agent's bounds.
	Limits Limits
	// OS and Arch are the sandbox's, in Go's words.
	OS, Arch string
	// Executable is the path of the agent's own program.
	Executable string
}

// Limits are an agent's bounds, in bytes.
type Limits struct {
	// Message bounds a message, Edit a file that is edited. Chunk is a good
	// size for chunks of content.
	Message, Chunk, Edit int64
	// Journal is how much output of a process is kept, of both streams
	// together, and StdinWindow how much standard input may be under way to it.
	Journal, StdinWindow int64
}

// Info asks the agent who it is. An agent whose protocol this client does not
// understand is an [ErrVersion] that says which of the two to update; what the
// agent said is returned all the same.
func (c *Client) Info(ctx context.Context) (Info, error) {
	r, err := c.agent.Info(ctx, &pb.InfoRequest{})
	if err != nil {
		return Info{}, FromStatus(err)
	}
	info := Info{
		Version:       r.Version,
		ProtocolMajor: int(r.ProtocolMajor),
		ProtocolMinor: int(r.ProtocolMinor),
		BootID:        r.BootId,
		PodUID:        r.PodUid,
		UID:           int(r.Uid),
		GID:           int(r.Gid),
		Workdir:       string(r.Workdir),
		Idle:          time.Duration(r.Idle),
		Capabilities:  r.Capabilities,
		Limits: Limits{
			Message: r.Limits.GetMessageBytes(), Chunk: r.Limits.GetChunkBytes(), Edit: r.Limits.GetEditBytes(),
			Journal: r.Limits.GetJournalBytes(), StdinWindow: r.Limits.GetStdinWindowBytes(),
		},
		OS:   r.Os,
		Arch: r.Arch,

		Executable: string(r.Executable),
	}
	c.meet(info)
	return info, checkVersion(info.ProtocolMajor, info.ProtocolMinor)
}

// checkVersion reports whether this client understands an agent of the
// protocol major.minor.
func checkVersion(major, minor int) error {
	older := "the agent's image"
	switch {
	case major > ProtocolMajor || major == ProtocolMajor && minor > ProtocolMinor+1:
		older = "this client"
	case major == ProtocolMajor && minor >= ProtocolMinor-1:
		return nil
	}
	return fmt.Errorf("%w: agent speaks protocol %d.%d, client %d.%d: update %s",
		ErrVersion, major, minor, ProtocolMajor, ProtocolMinor, older)
}

// Healthy returns nil if the agent says that it serves (grpc.health.v1). It
// works on the agent's health socket, too.
func (c *Client) Healthy(ctx context.Context) error {
	r, err := healthpb.NewHealthClient(c.conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return FromStatus(err)
	}
	if r.Status != healthpb.HealthCheckResponse_SERVING {
		return fmt.Errorf("%w: health is %s", ErrUnavailable, r.Status)
	}
	return nil
}

// Config is what [Client.Configure] sets on a running agent.
type Config struct {
	// Env is the default environment of processes, as NAME=VALUE, on top of
	// the agent's own. It replaces what was set before.
	Env []string
	// Workdir, if not empty, becomes the directory that relative paths mean.
	Workdir string
}

// Configure sets the defaults that later calls start from.
func (c *Client) Configure(ctx context.Context, config Config) error {
	_, err := c.agent.Configure(ctx, &pb.ConfigureRequest{Env: toBytes(config.Env), Workdir: []byte(config.Workdir)})
	return FromStatus(err)
}

// pathError returns the error of a call about a path: what the agent said, or
// what the transport said with the operation and path added.
func pathError(op, path string, err error) error {
	if err = FromStatus(err); err == nil {
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
