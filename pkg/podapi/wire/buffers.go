package wire

import (
	"sync"

	"google.golang.org/grpc/mem"
)

// BufferPool returns the buffers of both ends, for frames of HTTP/2 and messages of
// content. gRPC's own pool clears each buffer that it hands out, which costs as
// much as another copy of all that passes. Here a buffer has what it had before:
// its user writes all of it first, as gRPC and [Codec] do.
func BufferPool() mem.BufferPool { return buffers }

// buffers has the sizes that are asked for: of small contents, of a frame, of a
// message of output, and of one of content.
var buffers = newBufferPool(4<<10, 16<<10, outputChunk+outputHeader, ChunkSize+chunkHeader)

// bufferPool keeps buffers of some sizes, in order. What is larger is not kept.
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

// Put takes a buffer back that Get returned; others it leaves to the collector.
func (p bufferPool) Put(buffer *[]byte) {
	for _, tier := range p {
		if cap(*buffer) == tier.size {
			tier.spare.Put(buffer)
			return
		}
	}
}
