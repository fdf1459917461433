package rawgrpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Message is a message for [Codec].
type Message struct{ Data mem.BufferSlice }

// Codec is that of calls whose messages are *[Message]. To send one takes its data; who receives
// one frees it.
func Codec() encoding.CodecV2 { return codec{} }

type codec struct{}

func (codec) Name() string { return proto.Name } // on the wire they are

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*Message)
	if !ok {
		return nil, fmt.Errorf("a %T is no message of bytes", v)
	}
	data := m.Data
	m.Data = nil
	return data, nil
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*Message)
	if !ok {
		return fmt.Errorf("a %T is no message of bytes", v)
	}
	data.Ref()
	m.Data = data
	return nil
}
