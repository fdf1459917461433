package wire

import (
	"sync"

	"google.golang.org/grpc/mem"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// BufferPool returns the buffers of both ends, for frames of HTTP/2 and
// messages. gRPC's own pool clears each buffer that it hands out, which costs as
// much as another copy of all data. These buffers keep their old content: their
// users, gRPC and [Codec], overwrite all of it first.
func BufferPool() mem.BufferPool { return buffers }

// buffers has the sizes that are needed: for small contents, for the data of connections, which come in the
// sizes of [pb.NewDialBuffer], for a message of output, of content, and of parts of a checkpoint's objects.
var buffers = newBufferPool(
	4<<10, pb.LeastDialWindow+chunkHeader, pb.DialFrame+chunkHeader, pb.FirstDialWindow+chunkHeader,
	outputChunk+outputHeader, ChunkSize+chunkHeader, checkpoint.PartSize+partsHeader,
)

// bufferPool keeps buffers of some sizes, in order. It does not keep larger ones.
type bufferPool []bufferTier

type bufferTier struct {
	size  int
	spare *sync.Pool
}

func newBufferPool(sizes ...int) bufferPool {
	var pool bufferPool
	for _, size := range sizes {
		pool = append(pool, bufferTier{size, new(sync.Pool)})
	}
	return pool
}

// Get returns a buffer of this length.
func (p bufferPool) Get(length int) *[]byte {
	for _, tier := range p {
		if length > tier.size {
			continue
		}
		if spare, ok := tier.spare.Get().(*[]byte); ok {
			*spare = (*spare)[:length]
			return spare
		}
		buffer := make([]byte, length, tier.size)
		return &buffer
	}
	buffer := make([]byte, length)
	return &buffer
}

// Put takes back a buffer that Get returned, and leaves others to the collector.
func (p bufferPool) Put(buffer *[]byte) {
	for _, tier := range p {
		if cap(*buffer) == tier.size {
			tier.spare.Put(buffer)
			return
		}
	}
}
