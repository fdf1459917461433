package agentsandbox

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/gateway/internal/rawgrpc"
	"github.com/podagent/podagent/pkg/gateway/internal/stdin"
	"github.com/podagent/podagent/pkg/launcher"
)

// grpcCall is a call of sandboxd by gRPC: one message, which one or many answer.
type grpcCall struct {
	*gateway.Call
	*route
	ctx       context.Context
	stream    *rawgrpc.Stream
	operation string
	senders   *stdin.Senders
}

// methods are sandboxd's.
var methods = map[string]func(c *grpcCall, message []byte) error{
	"/process.v1.ProcessService/Start":        (*grpcCall).start,
	"/process.v1.ProcessService/Execute":      (*grpcCall).execute,
	"/process.v1.ProcessService/WriteStdin":   (*grpcCall).writeStdin,
	"/process.v1.ProcessService/SendSignal":   (*grpcCall).sendSignal,
	"/process.v1.ProcessService/ResizeTTY":    (*grpcCall).resize,
	"/watcher.v1.FileWatcherService/WatchDir": (*grpcCall).watch,
}

// isGRPC reports whether a request is one of gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// serveGRPC answers for sandboxd.
func (f *Face) serveGRPC(w http.ResponseWriter, r *http.Request, c *gateway.Call, to *route) {
	stream := rawgrpc.Accept(w, r, messageSilence)
	defer stream.Close()
	in := &grpcCall{Call: c, route: to, ctx: r.Context(), stream: stream, operation: "none", senders: &f.senders}
	end := status.New(codes.OK, "")
	if err := in.serve(r); err != nil {
		to.toldFailed(in.ctx, c, in.operation)
		end = in.statusOf(err)
	}
	stream.End(end)
}

func (c *grpcCall) serve(r *http.Request) error {
	do, ok := methods[c.path]
	if !ok {
		return gateway.Fail(http.StatusNotImplemented, "unsupported", "the runtime has no such method")
	}
	c.operation = operationOf(c.path)
	within, end, err := rawgrpc.Within(c.ctx, r)
	if err != nil {
		return err
	}
	defer end()
	c.ctx = within
	message, err := c.stream.Recv()
	if errors.Is(err, io.EOF) {
		err = faces.BadRequest("the call has no message")
	}
	if err != nil {
		return err
	}
	data := message.Materialize()
	message.Free()
	return do(c, data)
}

// statusOf returns how a call ends that failed.
func (c *grpcCall) statusOf(err error) *status.Status {
	if errors.Is(context.Cause(c.ctx), context.DeadlineExceeded) {
		err = gateway.Fail(http.StatusGatewayTimeout, "deadline", "the time of the call is over")
	} else if of, ok := err.(interface{ GRPCStatus() *status.Status }); ok { // of the call itself
		c.Failure(c.ctx, faces.BadRequest("%s", of.GRPCStatus().Message()))
		return of.GRPCStatus()
	}
	why := c.Failure(c.ctx, err)
	return grpcStatus(why)
}

// on begins an operation, and does it with the open sandbox, which it wakes if it sleeps.
func (c *grpcCall) on(d gateway.Detail, do func(*launcher.Sandbox) error) error {
	if err := c.begin(c.ctx, c.Call, c.operation, d); err != nil {
		return err
	}
	return c.Use(c.ctx, c.id, true, do)
}

// operationOf returns the name of a method's operation: process/Start for /process.v1.ProcessService/Start.
func operationOf(path string) string {
	service, method, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	of, _, _ := strings.Cut(service, ".")
	return of + "/" + method
}

// send sends a message.
func (c *grpcCall) send(message []byte) error {
	return c.stream.Send(mem.BufferSlice{mem.SliceBuffer(message)})
}
