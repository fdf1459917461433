package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
	"github.com/podagent/podagent/pkg/launcher"
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
	first  mem.Buffer
}

// servePodapi passes a call of podapi on: the first message is decoded, all others are bytes.
func (g *Gateway) servePodapi(w http.ResponseWriter, r *http.Request) {
	w, in, end, err := g.letIn(w, r, bearer(r))
	if err != nil {
		stream := rawgrpc.Accept(w, r, bodySilence)
		defer stream.Close()
		stream.End(g.grpcStatus(r.Context(), err))
		return
	}
	defer end()
	w.Header().Set(headerRequestID, actOf(in.Context()).act.ID)
	stream := rawgrpc.Accept(w, in, bodySilence)
	defer stream.Close()
	stream.End(g.grpcStatus(in.Context(), g.callAgent(in, stream)))
}

// callAgent makes a call that is let in.
func (g *Gateway) callAgent(r *http.Request, stream *rawgrpc.Stream) error {
	c := &podapiCall{Context: r.Context(), Stream: stream, method: podapiMethods[r.URL.Path], path: r.URL.Path}
	names := r.Header[headerSandbox]
	switch {
	case c.method.refused != "":
		actOf(c).is(operationOf(c.path), "")
		return &refusal{http.StatusForbidden, "permission", c.method.refused}
	case c.method.detail == nil:
		return &unknownMethod{c.path}
	case len(names) != 1:
		actOf(c).is(operationOf(c.path), "")
		return invalid("the metadata must have the name of one sandbox, as %s", headerSandbox)
	}
	actOf(c).is(operationOf(c.path), names[0])
	if err := rawgrpc.Check(r); err != nil {
		return err
	}
	timeout, err := rawgrpc.Timeout(r)
	if err != nil {
		return err
	}
	if timeout > 0 {
		within, cancel := context.WithTimeout(c, timeout)
		defer cancel()
		c.Context = within
	}
	detail, err := c.readFirst()
	if err != nil {
		return err
	}
	defer c.first.Free()
	if err := begin(c, detail); err != nil {
		return err
	}
	return g.use(c, names[0], !c.method.looksOn, c.passOn)
}

// readFirst reads the first message, and what it says.
func (c *podapiCall) readFirst() (Detail, error) {
	message, err := c.Recv()
	if errors.Is(err, io.EOF) {
		err = invalid("the call has no message")
	}
	if err != nil {
		return Detail{}, err
	}
	defer message.Free()
	c.first = message.MaterializeToBuffer(wire.BufferPool())
	return c.method.detail(c.first.ReadOnlyData())
}

// passOn makes the call in a sandbox, and returns how it ended.
func (c *podapiCall) passOn(s *launcher.Sandbox) error {
	ctx, cancel := context.WithCancelCause(c)
	defer cancel(nil)
	to, err := s.Conn().NewStream(ctx, &c.method.StreamDesc, c.path, grpc.ForceCodecV2(rawgrpc.Codec()))
	if err != nil {
		return err
	}
	c.first.Ref()
	if err := to.SendMsg(&rawgrpc.Message{Data: mem.BufferSlice{c.first}}); err != nil && !errors.Is(err, io.EOF) {
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
	if cause := context.Cause(ctx); cause != nil && c.Err() == nil {
		err = cause // the request is broken
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

// passAnswers passes on what the agent answers, until the call has ended.
func (c *podapiCall) passAnswers(to grpc.ClientStream) error {
	for {
		var message rawgrpc.Message
		if err := to.RecvMsg(&message); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if err := c.Send(message.Data); err != nil || !c.method.ServerStreams {
			return err
		}
	}
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
	return 0
}
