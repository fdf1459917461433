package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Codec returns the codec of both ends. On the wire it is protobuf. It codes
// chunks of content with one copy and no allocation, where gRPC's own codec makes
// two copies, the first into a buffer four times as large.
//
// A received chunk is valid until its message receives another one. The data of a
// process's output belongs to the receiver; see [Recycle]. The parts of a checkpoint's objects share
// one copy: whoever keeps a part keeps all of the message.
func Codec() encoding.CodecV2 {
	return codec{CodecV2: encoding.GetCodecV2(proto.Name), pool: buffers}
}

// chunkHeader is room for the tag and the length before a chunk.
const chunkHeader = 16

// chunkField holds a chunk, and chunkTag is its tag.
const chunkField protowire.Number = 1

var chunkTag = protowire.AppendTag(nil, chunkField, protowire.BytesType)

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
		return c.marshal(v)
	}
	chunk := *m.Chunk()
	buffer := c.pool.Get(len(chunk) + chunkHeader)
	*buffer = append((*buffer)[:0], chunkTag...)
	*buffer = protowire.AppendBytes(*buffer, chunk)
	return mem.BufferSlice{mem.NewBuffer(buffer, c.pool)}, nil
}

// marshal encodes a message as protobuf does, into a buffer of the pool: the stock codec's pool clears each buffer. For a
// small message that takes no pool.
func (c codec) marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(protobuf.Message)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := protobuf.Size(m)
	if mem.IsBelowBufferPoolingThreshold(size) {
		return c.CodecV2.Marshal(v)
	}
	buffer := c.pool.Get(size)
	b, err := protobuf.MarshalOptions{UseCachedSize: true}.MarshalAppend((*buffer)[:0], m)
	if err != nil {
		return nil, err
	}
	*buffer = b
	return mem.BufferSlice{mem.NewBuffer(buffer, c.pool)}, nil
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch r := v.(type) {
	case *pb.ExecResponse:
		if unmarshalOutput(data, r) {
			return nil
		}
	case *pb.ExportCheckpointResponse:
		if parts := unmarshalParts(data, exportPartsField); parts != nil {
			r.Reset()
			r.Kind = &pb.ExportCheckpointResponse_Parts{Parts: parts}
			return nil
		}
	case *pb.ImportCheckpointRequest:
		if parts := unmarshalParts(data, importPartsField); parts != nil {
			r.Reset()
			r.Kind = &pb.ImportCheckpointRequest_Parts{Parts: parts}
			return nil
		}
	}
	m, ok := v.(pb.Content)
	if !ok {
		return c.unmarshal(data, v)
	}
	skip, ok := bytesAt(data, chunkField)
	if !ok {
		return c.unmarshal(data, v)
	}
	to := m.MakeChunk(data.Len() - skip)
	*to = appendFrom((*to)[:0], data, skip)
	return nil
}

// bytesAt returns where the bytes of a field begin in a message that has only these.
func bytesAt(data mem.BufferSlice, field protowire.Number) (int, bool) {
	head := appendFirst(make([]byte, 0, chunkHeader), data)
	number, kind, n := protowire.ConsumeTag(head)
	if n < 0 || number != field || kind != protowire.BytesType {
		return 0, false
	}
	size, m := protowire.ConsumeVarint(head[n:])
	if m < 0 || size != uint64(data.Len()-n-m) {
		return 0, false
	}
	return n + m, true
}
