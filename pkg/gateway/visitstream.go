package gateway

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Invoke implements [grpc.ClientConnInterface].
func (c *visitConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if method == pb.Agent_Info_FullMethodName && c.know(ctx, args, reply, opts) {
		return nil
	}
	call, err := c.call(ctx, method, args)
	if err != nil {
		return err
	}
	defer call.leave()
	held, err := call.hold()
	if err == nil {
		call.act.in.Add(sizeOf(args))
		err = held.sandbox.Conn().Invoke(call.ctx, method, args, reply, opts...)
	}
	if err == nil {
		call.act.out.Add(sizeOf(reply))
	}
	return endOf(ctx, call.finish(err))
}

// endOf returns how a call ended, as gRPC has it, whose caller may have left.
func endOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return err
}

func sizeOf(message any) int64 {
	if m, ok := message.(proto.Message); ok {
		return int64(proto.Size(m))
	}
	return 0
}

// NewStream implements [grpc.ClientConnInterface]. The call begins with the first message, which says what
// it is for.
func (c *visitConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return &visitStream{conn: c, ctx: ctx, desc: desc, method: method, opts: opts, began: make(chan struct{})}, nil
}

// visitStream is a stream of a visit.
type visitStream struct {
	conn   *visitConn
	ctx    context.Context
	desc   *grpc.StreamDesc
	method string
	opts   []grpc.CallOption
	once   sync.Once
	began  chan struct{} // closed when what follows is set
	call   *visitCall
	to     grpc.ClientStream
	failed error // why it did not begin

	mu   sync.Mutex
	last bool // the message came that says how it ended
	over bool // it has ended, by err
	err  error
}

var errNoMessage = status.Error(codes.InvalidArgument, "the call has no message")

// begin begins the call, once.
func (s *visitStream) begin(first any) {
	s.once.Do(func() {
		defer close(s.began)
		if first == nil {
			s.failed = errNoMessage
			return
		}
		if s.call, s.failed = s.conn.call(s.ctx, s.method, first); s.failed != nil {
			s.failed = notSent(s.failed)
			return
		}
		held, err := s.call.hold()
		if err == nil {
			s.to, err = held.sandbox.Conn().NewStream(s.call.ctx, s.desc, s.method, s.opts...)
		}
		if err == nil && s.method == pb.Processes_Exec_FullMethodName {
			err = s.call.outlast() // what a client has started gets a signal when the visit has ended
		}
		if err != nil {
			s.failed = notSent(s.finish(err))
			return
		}
		context.AfterFunc(s.call.ctx, func() { s.finish(context.Cause(s.call.ctx)) })
	})
}

// notSent returns the error of a call that the agent knows nothing of. If that came without more words, clients
// would take it for a cut, and try for minutes to find out whether a command has started.
func notSent(err error) error {
	s, ok := status.FromError(err)
	if !ok || s.Code() != codes.Unavailable || wire.Detail(err) != nil {
		return err
	}
	return withDetails(s, &pb.Error{Class: pb.Class_CLASS_UNAVAILABLE, Message: s.Message()}).Err()
}

// finish ends the call by err, io.EOF for a good end. The first time counts.
func (s *visitStream) finish(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.err
	}
	left := s.ctx.Err() != nil || status.Code(err) == codes.Canceled
	if errors.Is(err, io.EOF) || s.last && left {
		err = nil
	}
	s.over, s.err = true, endOf(s.ctx, s.call.finish(err))
	if s.err == nil {
		s.err = io.EOF
	}
	s.call.leave()
	return s.err
}

// SendMsg implements [grpc.ClientStream].
func (s *visitStream) SendMsg(m any) error {
	s.begin(m)
	if s.failed != nil {
		return s.failed
	}
	s.call.act.in.Add(sizeOf(m))
	return s.to.SendMsg(m)
}

// RecvMsg implements [grpc.ClientStream].
func (s *visitStream) RecvMsg(m any) error {
	select {
	case <-s.began:
	case <-s.ctx.Done():
		return status.FromContextError(s.ctx.Err()).Err()
	}
	if s.failed != nil {
		return s.failed
	}
	if err := s.to.RecvMsg(m); err != nil {
		return s.finish(err)
	}
	s.call.act.out.Add(sizeOf(m))
	s.look(m)
	if !s.desc.ServerStreams {
		s.finish(io.EOF)
	}
	return nil
}

// look notes whether a message says how a call ended.
func (s *visitStream) look(m any) {
	r, ok := m.(*pb.ExecResponse)
	if !ok || r.GetExit() == nil {
		return
	}
	s.call.act.exited(&podapi.ExitStatus{Code: int(r.GetExit().GetCode())})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = true
}

// CloseSend implements [grpc.ClientStream].
func (s *visitStream) CloseSend() error {
	s.begin(nil)
	if s.failed != nil {
		return s.failed
	}
	return s.to.CloseSend()
}

// Header implements [grpc.ClientStream].
func (s *visitStream) Header() (metadata.MD, error) {
	<-s.began
	if s.failed != nil {
		return nil, s.failed
	}
	return s.to.Header()
}

// Trailer implements [grpc.ClientStream].
func (s *visitStream) Trailer() metadata.MD {
	if s.to == nil {
		return nil
	}
	return s.to.Trailer()
}

// Context implements [grpc.ClientStream].
func (s *visitStream) Context() context.Context { return s.ctx }
