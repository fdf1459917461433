package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Codec returns the codec of both ends. On the wire it is protobuf. It codes
// chunks of content with one copy and no allocation, where gRPC's own codec makes
// two copies, the first into a buffer four times as large.
//
// A received chunk is valid until its message receives another one. The data of a
// process's output belongs to the receiver; see [Recycle].
func Codec() encoding.CodecV2 {
	return codec{CodecV2: encoding.GetCodecV2(proto.Name), pool: buffers}
}

// chunkHeader is room for the tag and the length before a chunk.
const chunkHeader = 16

// chunkTag is the tag of the field that holds a chunk.
var chunkTag = protowire.AppendTag(nil, 1, protowire.BytesType)

type codec struct {
	encoding.CodecV2
	pool mem.BufferPool
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*pb.ExecResponse); ok {
		if output, field := chunkOf(r); output != nil {
			return c.marshalOutput(output, field), nil
		}
	}
	m, ok := v.(pb.Content)
	if !ok || m.Chunk() == nil {
		return c.CodecV2.Marshal(v)
	}
	chunk := *m.Chunk()
	buffer := c.pool.Get(len(chunk) + chunkHeader)
	*buffer = append((*buffer)[:0], chunkTag...)
	*buffer = protowire.AppendBytes(*buffer, chunk)
	return mem.BufferSlice{mem.NewBuffer(buffer, c.pool)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*pb.ExecResponse); ok && unmarshalOutput(data, r) {
		return nil
	}
	m, ok := v.(pb.Content)
	if !ok {
		return c.unmarshal(data, v)
	}
	skip, ok := chunkAt(data)
	if !ok {
		return c.unmarshal(data, v)
	}
	to := m.MakeChunk(data.Len() - skip)
	*to = appendFrom((*to)[:0], data, skip)
	return nil
}

// chunkAt returns where the chunk begins in a message that has only a chunk.
func chunkAt(data mem.BufferSlice) (int, bool) {
	head := appendFirst(make([]byte, 0, chunkHeader), data)
	field, kind, n := protowire.ConsumeTag(head)
	if n < 0 || field != 1 || kind != protowire.BytesType {
		return 0, false
	}
	size, m := protowire.ConsumeVarint(head[n:])
	if m < 0 || size != uint64(data.Len()-n-m) {
		return 0, false
	}
	return n + m, true
}
