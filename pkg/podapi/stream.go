package podapi

import (
	"context"
	"iter"

	"google.golang.org/grpc"
)

// receive returns the messages of a server's stream. The caller breaks the loop at
// the final message; a stream that ends before is an error. A message is valid
// until the next one. The call ends with the loop.
func receive[Q, R any](ctx context.Context, request *Q, call func(context.Context, *Q, ...grpc.CallOption) (grpc.ServerStreamingClient[R], error)) iter.Seq2[*R, error] {
	return func(yield func(*R, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := call(ctx, request)
		if err != nil {
			yield(nil, err)
			return
		}
		message := new(R)
		for {
			if err := stream.RecvMsg(message); err != nil {
				yield(nil, cutError(err))
				return
			}
			if !yield(message, nil) {
				return
			}
		}
	}
}
