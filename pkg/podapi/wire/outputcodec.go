package wire

import (
	"sync"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// The output of processes is coded with one copy at each end, like other content
// (see [Codec]). The client lends its copy to the receiver, who gives it back with
// [Recycle].

// The fields of ExecResponse and OutputChunk that carry output.
const (
	stdoutField, stderrField             protowire.Number = 2, 3
	dataField, offsetField, omittedField protowire.Number = 1, 2, 3
)

const (
	// outputHeader is room for everything but the data in a message of output.
	outputHeader = 64
	// outputChunk is the size of the buffers that receive output: enough for a
	// message that fits the codec's smaller buffers.
	outputChunk = ChunkSize / 4
	// minOutput is the size of a message from which on they pay off.
	minOutput = 4 << 10
)

// outputChunks are buffers for received output.
var outputChunks sync.Pool

// Recycle takes back the data of a message of output when its receiver is done with
// it, for later messages. A receiver may also keep the data.
func Recycle(data []byte) {
	if cap(data) == outputChunk {
		outputChunks.Put((*[outputChunk]byte)(data[:outputChunk]))
	}
}

// chunkOf returns the output in the message and its field; nil if the message is
// something else.
func chunkOf(r *pb.ExecResponse) (*pb.OutputChunk, protowire.Number) {
	switch kind := r.Kind.(type) {
	case *pb.ExecResponse_Stdout:
		return kind.Stdout, stdoutField
	case *pb.ExecResponse_Stderr:
		return kind.Stderr, stderrField
	}
	return nil, 0
}

// marshalOutput puts the data last, so that a reader knows everything else when the
// data begins.
func (c codec) marshalOutput(o *pb.OutputChunk, field protowire.Number) mem.BufferSlice {
	head := make([]byte, 0, outputHeader)
	head = appendVarint(head, offsetField, o.Offset)
	head = appendVarint(head, omittedField, o.Omitted)
	head = protowire.AppendTag(head, dataField, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(o.Data)))
	buffer := c.pool.Get(len(o.Data) + outputHeader)
	b := protowire.AppendTag((*buffer)[:0], field, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(head)+len(o.Data)))
	b = append(b, head...)
	*buffer = append(b, o.Data...)
	return mem.BufferSlice{mem.NewBuffer(buffer, c.pool)}
}

func appendVarint(b []byte, field protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, uint64(v))
}

// unmarshalOutput reads a message in marshalOutput's form, and reports whether it
// is one.
func unmarshalOutput(data mem.BufferSlice, r *pb.ExecResponse) bool {
	size := data.Len()
	if size < minOutput {
		return false
	}
	var room [outputHeader]byte
	field, chunk, start, ok := outputHead(appendFirst(room[:0], data), size)
	if !ok || size-start > outputChunk {
		return false
	}
	buffer, ok := outputChunks.Get().(*[outputChunk]byte)
	if !ok {
		buffer = new([outputChunk]byte)
	}
	chunk.Data = appendFrom(buffer[:0], data, start)
	if field == stdoutField {
		r.Kind = &pb.ExecResponse_Stdout{Stdout: chunk}
	} else {
		r.Kind = &pb.ExecResponse_Stderr{Stderr: chunk}
	}
	return true
}

// outputHead reads the fields before the data in a message of this size, and
// returns where the data starts.
func outputHead(head []byte, size int) (field protowire.Number, chunk *pb.OutputChunk, start int, ok bool) {
	field, kind, n := protowire.ConsumeTag(head)
	if n < 0 || kind != protowire.BytesType || field != stdoutField && field != stderrField {
		return 0, nil, 0, false
	}
	length, m := protowire.ConsumeVarint(head[n:])
	start = n + m
	if m < 0 || length != uint64(size-start) {
		return 0, nil, 0, false
	}
	chunk = &pb.OutputChunk{}
	for {
		number, kind, n := protowire.ConsumeTag(head[start:])
		if n < 0 {
			return 0, nil, 0, false
		}
		v, m := protowire.ConsumeVarint(head[start+n:])
		if m < 0 {
			return 0, nil, 0, false
		}
		start += n + m
		switch {
		case number == offsetField && kind == protowire.VarintType:
			chunk.Offset = int64(v)
		case number == omittedField && kind == protowire.VarintType:
			chunk.Omitted = int64(v)
		default:
			return field, chunk, start, number == dataField && kind == protowire.BytesType && v == uint64(size-start)
		}
	}
}

// appendFirst appends the first bytes of data, as many as there is room for.
func appendFirst(b []byte, data mem.BufferSlice) []byte {
	for _, part := range data {
		bytes := part.ReadOnlyData()
		b = append(b, bytes[:min(len(bytes), cap(b)-len(b))]...)
	}
	return b
}

// appendFrom appends the bytes of data from skip on.
func appendFrom(b []byte, data mem.BufferSlice, skip int) []byte {
	for _, part := range data {
		bytes := part.ReadOnlyData()
		n := min(skip, len(bytes))
		skip -= n
		b = append(b, bytes[n:]...)
	}
	return b
}
