package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// headerSandbox names the sandbox that a call of podapi is for. It is another header than those of
// requests to servers in a sandbox, which may speak gRPC as well.
const headerSandbox = "Podagent-Sandbox"

// podapiCall is a call of podapi on its way to the agent of a sandbox.
type podapiCall struct {
	context.Context
	*rawgrpc.Stream
	method podapiMethod
	path   string
	first  mem.Buffer // until it is sent
}

// servePodapi passes a call of podapi on: the first message is decoded, all others are bytes.
func (g *Gateway) servePodapi(w http.ResponseWriter, r *http.Request) {
	w, in, end, err := g.letIn(w, r, bearer(r))
	if err != nil {
		p := problemOf(g.problem(r.Context(), err))
		g.turnedAway(r.Context(), p)
		stream := rawgrpc.Accept(w, r, bodySilence)
		defer stream.Close()
		stream.End(problemStatus(p, busyFor(err)))
		return
	}
	defer end()
	w.Header().Set(headerRequestID, actOf(in.Context()).act.ID)
	stream := rawgrpc.Accept(w, in, bodySilence)
	defer stream.Close()
	s := g.grpcStatus(in.Context(), g.callAgent(in, stream))
	actOf(in.Context()).answered(s.Code())
	stream.End(s)
}

// callAgent makes a call that is let in.
func (g *Gateway) callAgent(r *http.Request, stream *rawgrpc.Stream) error {
	c := &podapiCall{Context: r.Context(), Stream: stream, path: r.URL.Path}
	var known bool
	if c.method, known = podapiMethods[c.path]; !known {
		return &unknownMethod{c.path}
	}
	actOf(c).is(strings.TrimPrefix(c.path, "/"), "")
	names := r.Header[headerSandbox]
	if len(names) != 1 {
		return invalid("the metadata must name one sandbox, as %s", strings.ToLower(headerSandbox))
	}
	if err := CheckName(names[0]); err != nil {
		return invalid("%v", err)
	}
	actOf(c).is("", names[0])
	if c.method.refused != "" {
		return &refusal{http.StatusForbidden, "permission", c.method.refused}
	}
	within, end, err := rawgrpc.Within(c.Context, r)
	if err != nil {
		return err
	}
	defer end()
	c.Context = within
	what, err := c.readFirst()
	if err != nil {
		return err
	}
	defer c.forgetFirst()
	if c.method.endless && g.streams.closing.Err() != nil {
		return errEnding
	}
	if err := begin(c, what.Detail); err != nil {
		return err
	}
	return g.use(c, names[0], !what.looksOn, func(s *launcher.Sandbox) error { return c.passOn(s.Conn(), g.streams.closing) })
}

// readFirst reads the first message, and what it asks for.
func (c *podapiCall) readFirst() (asked, error) {
	message, err := c.Recv()
	if errors.Is(err, io.EOF) {
		err = invalid("the call has no message")
	}
	if err != nil {
		return asked{}, err
	}
	defer message.Free()
	c.first = message.MaterializeToBuffer(wire.BufferPool())
	return c.method.read(c.first.ReadOnlyData())
}

// forgetFirst lets go of the first message.
func (c *podapiCall) forgetFirst() {
	if c.first != nil {
		c.first.Free()
		c.first = nil
	}
}

// passOn makes the call on a connection to an agent, and returns how it ended.
func (c *podapiCall) passOn(conn grpc.ClientConnInterface, closing context.Context) error {
	ctx, cancel := context.WithCancelCause(c)
	defer cancel(nil)
	if c.method.endless {
		defer context.AfterFunc(closing, func() { cancel(errEnding) })()
	}
	to, err := conn.NewStream(ctx, &c.method.StreamDesc, c.path, grpc.ForceCodecV2(rawgrpc.Codec()))
	if err == nil {
		c.first.Ref()
		err = to.SendMsg(&rawgrpc.Message{Data: mem.BufferSlice{c.first}})
	}
	c.forgetFirst() // it may be large, and the call long

	if err != nil && !errors.Is(err, io.EOF) { // by which it says that the answer has why
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := c.passRequests(to); err != nil {
			cancel(err)
		}
	}()
	err = c.passAnswers(to)
	if cause := context.Cause(ctx); err != nil && cause != nil && c.Err() == nil {
		err = cause // which ended the call from here
	}
	cancel(nil)
	c.Close()
	<-sent
	return err
}

// passRequests passes on what the caller sends after its first message.
func (c *podapiCall) passRequests(to grpc.ClientStream) error {
	if !c.method.ClientStreams {
		return to.CloseSend()
	}
	for {
		message, err := c.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return to.CloseSend()
		case err != nil:
			return err
		}
		if err := to.SendMsg(&rawgrpc.Message{Data: message}); err != nil {
			return nil // whoever receives is told why
		}
	}
}

// passAnswers passes on what the agent answers, until the call has ended. A caller that has read the last
// message need not stay for more.
func (c *podapiCall) passAnswers(to grpc.ClientStream) error {
	for last := false; ; {
		var message rawgrpc.Message
		if err := to.RecvMsg(&message); err != nil {
			left := c.Err() != nil || status.Code(err) == codes.Canceled // whichever is seen first
			if errors.Is(err, io.EOF) || last && left {
				err = nil
			}
			return err
		}
		last = c.isLast(message.Data)
		if err := c.Send(message.Data); err != nil || !c.method.ServerStreams {
			return err
		}
	}
}

// lastFields are the numbers of ExecResponse.exit, WriteReply.end and PushReply.end, which are in the
// last message of a call.
var lastFields = map[string]protowire.Number{
	pb.Processes_Exec_FullMethodName: 5, pb.Files_Write_FullMethodName: 2, pb.Files_Push_FullMethodName: 2,
}

// isLast reports whether a message says how a command or an upload ended, and notes that of a command.
func (c *podapiCall) isLast(message mem.BufferSlice) bool {
	if lastFields[c.path] == 0 || len(message) != 1 || message.Len() > exitLimit {
		return false
	}
	if field, _, _ := protowire.ConsumeTag(message[0].ReadOnlyData()); field != lastFields[c.path] {
		return false
	}
	var m pb.ExecResponse
	if c.path == pb.Processes_Exec_FullMethodName && proto.Unmarshal(message[0].ReadOnlyData(), &m) == nil {
		actOf(c).exited(&podapi.ExitStatus{Code: int(m.GetExit().GetCode())})
	}
	return true
}

// unknownMethod says that the gateway does not know a method. To the caller it looks as if it called
// an agent that is older than its client.
type unknownMethod struct{ path string }

func (e *unknownMethod) Error() string { return "unknown method " + e.path }

// busyFor is when a caller who was refused for now may come again; 0 if that is not known.
func busyFor(err error) time.Duration {
	if b, ok := errors.AsType[*busy](err); ok {
		return b.wait
	}
	if errors.Is(err, launcher.ErrNotReady) {
		return retryAfter
	}
	return 0
}

// Recv returns the caller's next message.
func (c *podapiCall) Recv() (mem.BufferSlice, error) {
	message, err := c.Stream.Recv()
	return message, callersFault(err)
}

// Send sends the caller a message.
func (c *podapiCall) Send(message mem.BufferSlice) error { return callersFault(c.Stream.Send(message)) }

// callersFault returns the status for an error of the caller's connection, which may be broken before
// the request's context has ended.
func callersFault(err error) error {
	if _, isStatus := status.FromError(err); isStatus || errors.Is(err, io.EOF) {
		return err
	}
	return status.Error(codes.Canceled, "the caller has left")
}
