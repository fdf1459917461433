package podapi

import (
	"context"
	"hash/crc32"
	"iter"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
)

// receive returns the messages of a server's stream. The loop over it ends
// with the final message, by breaking; a stream that ends before is an error.
// A message is valid until the loop goes on. However the loop ends, the call
// does.
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

// checksum counts and sums the bytes that pass.
type checksum struct{ sum fsops.Sum }

func (c *checksum) add(data []byte) {
	c.sum.Size += int64(len(data))
	c.sum.CRC32C = crc32.Update(c.sum.CRC32C, fsops.Castagnoli, data)
}

// check compares with what the sender announced at the end.
func (c *checksum) check(announced fsops.Sum) error {
	if c.sum != announced {
		return fsops.ErrChecksum
	}
	return nil
}
