package wire

import (
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// The parts of a checkpoint's objects are decoded with one copy, which all of a message share. The stock codec makes two
// copies, the second one of each part alone.

// The fields that carry parts: of the messages with them, of CheckpointParts, and of CheckpointPart.
const (
	exportPartsField, importPartsField                               protowire.Number = 2, 3
	partField                                                        protowire.Number = 1
	partObjectField, partSizeField, partEncodingField, partDataField protowire.Number = 1, 2, 3, 4
)

const (
	// minParts is the size of a message from which on the copy that is saved pays off.
	minParts = 4 << 10
	// partsHeader is room for everything but the data of the parts in a message: each has about 50 bytes of tags, lengths,
	// hash, size and encoding.
	partsHeader = 64 * checkpoint.MaxParts
)

// unmarshalParts reads a message that has only parts, in this field. It returns nil for any other message, and for one
// that the stock codec is to decode: a small one, one of more parts than senders put into one, one whose fields
// are not in order.
func unmarshalParts(data mem.BufferSlice, field protowire.Number) *pb.CheckpointParts {
	if data.Len() < minParts {
		return nil
	}
	skip, ok := bytesAt(data, field)
	if !ok {
		return nil
	}
	text := appendFrom(make([]byte, 0, data.Len()-skip), data, skip)
	count, ok := countParts(text)
	if !ok {
		return nil
	}
	list := make([]pb.CheckpointPart, count)
	parts := &pb.CheckpointParts{Parts: make([]*pb.CheckpointPart, count)}
	for i := range list {
		_, _, n := protowire.ConsumeTag(text)
		one, m := protowire.ConsumeBytes(text[n:])
		if !readPart(one, &list[i]) {
			return nil
		}
		parts.Parts[i] = &list[i]
		text = text[n+m:]
	}
	return parts
}

// countParts counts the parts in a text that has nothing else.
func countParts(text []byte) (count int, ok bool) {
	for ; len(text) > 0; count++ {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 || number != partField || kind != protowire.BytesType || count == checkpoint.MaxParts {
			return 0, false
		}
		_, m := protowire.ConsumeBytes(text[n:])
		if m < 0 {
			return 0, false
		}
		text = text[n+m:]
	}
	return count, count > 0
}

// readPart reads a part whose fields come in their order, each once. Its bytes stay where they are.
func readPart(text []byte, p *pb.CheckpointPart) bool {
	for last := protowire.Number(0); len(text) > 0; {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 || number <= last {
			return false
		}
		m := -1
		switch {
		case number == partObjectField && kind == protowire.BytesType:
			p.Object, m = consumeBytes(text[n:])
		case number == partSizeField && kind == protowire.VarintType:
			var v uint64
			v, m = protowire.ConsumeVarint(text[n:])
			p.Size = int64(v)
		case number == partEncodingField && kind == protowire.VarintType:
			var v uint64
			v, m = protowire.ConsumeVarint(text[n:])
			p.Encoding = pb.CheckpointEncoding(int32(v))
		case number == partDataField && kind == protowire.BytesType:
			p.Data, m = consumeBytes(text[n:])
		}
		if m < 0 {
			return false
		}
		last, text = number, text[n+m:]
	}
	return true
}

// consumeBytes is protowire.ConsumeBytes for bytes that others follow: what is appended to them does not get there.
func consumeBytes(text []byte) (b []byte, n int) {
	b, n = protowire.ConsumeBytes(text)
	return b[:len(b):len(b)], n
}
