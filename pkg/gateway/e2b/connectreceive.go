package e2b

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// callersFaults has a message of a stream that cannot be read be the caller's fault: the library tells of a
// malformed envelope as if it were its own.
type callersFaults struct{}

// WrapUnary implements [connect.Interceptor].
func (callersFaults) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc { return next }

// WrapStreamingClient implements [connect.Interceptor].
func (callersFaults) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (callersFaults) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &receiver{conn})
	}
}

type receiver struct{ connect.StreamingHandlerConn }

// Receive implements [connect.StreamingHandlerConn].
func (r *receiver) Receive(message any) error {
	err := r.StreamingHandlerConn.Receive(message)
	if why, ok := errors.AsType[*connect.Error](err); ok && why.Code() == connect.CodeInternal && !errors.Is(err, io.EOF) {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(why.Message()))
	}
	return err
}
