// Package bare is plain gRPC: its calls exchange opaque bytes, with podagent's
// sizes of messages, windows and buffers. The time that podagent takes beyond that
// is its own.
package bare

import (
	"context"
	"io"
	"net"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"

	"github.com/podagent/podagent/pkg/podapi/wire"
)

const (
	// small is the size of a unary call's messages in bytes, as in raw round trips.
	small = 64
	// chunk is the size of each message of a stream.
	chunk = wire.ChunkSize
	// workers is the number of goroutines that stay for calls, as in podagent.
	workers = 16
)

// codec sends bytes unchanged, and only counts received bytes.
type codec struct{}

func (codec) Name() string { return "bare" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*int) = data.Len()
	return nil
}

// The methods. A stream's length, in chunks, is the length of its request.
const (
	unary   = "/bare/Unary"
	run     = "/bare/Run"
	receive = "/bare/Receive"
	send    = "/bare/Send"
)

var service = grpc.ServiceDesc{
	ServiceName: "bare",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{
		{MethodName: "Unary", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return make([]byte, small), decode(new(int))
		}},
		{MethodName: "Run", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			if err := decode(new(int)); err != nil {
				return nil, err
			}
			return make([]byte, small), runTrue()
		}},
	},
	Streams: []grpc.StreamDesc{
		{StreamName: "Receive", ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			var chunks int
			if err := stream.RecvMsg(&chunks); err != nil {
				return err
			}
			return sendChunks(stream, chunks)
		}},
		{StreamName: "Send", ClientStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
			if _, err := receiveChunks(stream); err != nil {
				return err
			}
			return stream.SendMsg([]byte{0})
		}},
	},
}

// runTrue starts true and waits for it, without anything else that a caller could
// ask for.
func runTrue() error {
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{})
	if err == nil {
		_, err = syscall.Wait4(pid, nil, 0, nil)
	}
	return err
}

// stream is one side of a stream.
type stream interface {
	SendMsg(any) error
	RecvMsg(any) error
}

func sendChunks(s stream, chunks int) error {
	data := make([]byte, chunk)
	for range chunks {
		if err := s.SendMsg(data); err != nil {
			return err
		}
	}
	return nil
}

func receiveChunks(s stream) (bytes int64, err error) {
	for {
		var n int
		switch err := s.RecvMsg(&n); err {
		case nil:
			bytes += int64(n)
		case io.EOF:
			return bytes, nil
		default:
			return bytes, err
		}
	}
}

// Serve serves on a listener.
func Serve(l net.Listener) error {
	server := grpc.NewServer(grpc.ForceServerCodecV2(codec{}), grpc.NumStreamWorkers(workers),
		grpc.InitialWindowSize(wire.AgentWindow), grpc.InitialConnWindowSize(wire.ClientWindow),
		grpc.WriteBufferSize(wire.AgentWriteBuffer), grpc.ReadBufferSize(wire.ReadBuffer), experimental.BufferPool(wire.BufferPool()))
	server.RegisterService(&service, nil)
	return server.Serve(l)
}

// Client is a client of Serve.
type Client struct{ conn *grpc.ClientConn }

// Dial returns a client over the connection that dial opens.
func Dial(dial func(context.Context) (net.Conn, error)) (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///bare",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // dial adds TLS if it is used
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec{})),
		grpc.WithInitialWindowSize(wire.ClientWindow), grpc.WithInitialConnWindowSize(wire.ClientWindow),
		grpc.WithWriteBufferSize(wire.ClientWriteBuffer), grpc.WithReadBufferSize(wire.ReadBuffer), experimental.WithBufferPool(wire.BufferPool()))
	return &Client{conn}, err
}

// Close closes the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Call sends 64 bytes and waits for as many.
func (c *Client) Call(ctx context.Context) error {
	return c.conn.Invoke(ctx, unary, make([]byte, small), new(int))
}

// RunTrue makes the other side run /bin/true.
func (c *Client) RunTrue(ctx context.Context) error {
	return c.conn.Invoke(ctx, run, make([]byte, small), new(int))
}

// Receive makes the other side send this many bytes, a multiple of 256 KiB, and
// returns how many arrived.
func (c *Client) Receive(ctx context.Context, size int64) (int64, error) {
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, receive)
	if err != nil {
		return 0, err
	}
	if err := s.SendMsg(make([]byte, size/chunk)); err != nil {
		return 0, err
	}
	return receiveChunks(s)
}

// Send sends this many bytes, a multiple of 256 KiB, and waits until the other side
// has them.
func (c *Client) Send(ctx context.Context, size int64) error {
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, send)
	if err != nil {
		return err
	}
	if err := sendChunks(s, int(size/chunk)); err != nil && err != io.EOF { // at io.EOF, the reply has the reason
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	return s.RecvMsg(new(int))
}
