package wire

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// unmarshal decodes a message, unless an agent sent it and it has more than maxElements fields, which is an error.
func (c codec) unmarshal(data mem.BufferSlice, v any) error {
	// In one buffer of this pool: the stock codec would take one from its own, which clears it.
	whole := data.MaterializeToBuffer(c.pool)
	defer whole.Free()
	if m, ok := v.(protobuf.Message); ok && whole.Len() > 2*maxElements { // a field takes two bytes at least
		d := m.ProtoReflect().Descriptor()
		if isFromAgent(d) && !FewElements(whole.ReadOnlyData(), d, maxElements) {
			return fmt.Errorf("%s of %d bytes has more than %d fields", d.Name(), whole.Len(), maxElements)
		}
	}
	return c.CodecV2.Unmarshal(mem.BufferSlice{whole}, v)
}

// isFromAgent reports whether messages of this type carry what an agent has sent: its answers, and those of its exports that
// are handed on to another agent's import.
func isFromAgent(d protoreflect.MessageDescriptor) bool {
	name := string(d.Name())
	return strings.HasSuffix(name, "Response") || strings.HasSuffix(name, "Reply") || name == "ImportCheckpointRequest"
}

// FewElements reports whether an encoded message has no more than this many fields, with those of its
// parts: small ones take a hundred times as much memory when they are decoded.
func FewElements(message []byte, d protoreflect.MessageDescriptor, most int) bool {
	_, ok := countElements(message, d, most)
	return ok
}

// countElements counts the fields of an encoded message, and of the messages in it. It
// returns how many more there may be, and false if there are too many. It stops at a
// part that it cannot read: the decoder refuses that.
func countElements(b []byte, d protoreflect.MessageDescriptor, room int) (left int, ok bool) {
	for len(b) > 0 {
		if room--; room < 0 {
			return 0, false
		}
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return room, true
		}
		size := protowire.ConsumeFieldValue(number, kind, b[n:])
		if size < 0 {
			return room, true
		}
		if field := d.Fields().ByNumber(number); kind == protowire.BytesType && field != nil && field.Message() != nil {
			part, _ := protowire.ConsumeBytes(b[n:])
			if room, ok = countElements(part, field.Message(), room); !ok {
				return 0, false
			}
		}
		b = b[n+size:]
	}
	return room, true
}
