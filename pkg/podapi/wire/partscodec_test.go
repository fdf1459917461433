package wire

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// exportOf is a message with parts of a checkpoint's objects.
func exportOf(parts ...*pb.CheckpointPart) *pb.ExportCheckpointResponse {
	return &pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Parts{Parts: &pb.CheckpointParts{Parts: parts}}}
}

// importOf is exportOf in the other direction.
func importOf(parts ...*pb.CheckpointPart) *pb.ImportCheckpointRequest {
	return &pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Parts{Parts: &pb.CheckpointParts{Parts: parts}}}
}

// somePart begins an object with this content.
func somePart(data []byte) *pb.CheckpointPart {
	return &pb.CheckpointPart{Object: bytes.Repeat([]byte{7}, 32), Size: int64(len(data)), Encoding: pb.CheckpointEncoding_CHECKPOINT_ENCODING_S2, Data: data}
}

func TestPartsAreCodedAsByProtobuf(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 10<<10)
	many := make([]*pb.CheckpointPart, checkpoint.MaxParts+1)
	for i := range many {
		many[i] = somePart(large[:i%100])
	}
	for _, parts := range [][]*pb.CheckpointPart{
		{somePart(large)},
		{{Data: large}},
		{{}, somePart(large), {}, somePart(nil)},
		many[1:], many,
		{somePart([]byte("small"))},
		{},
		{{Object: large, Size: -1, Encoding: -1, Data: nil}},
	} {
		for m, got := range map[protobuf.Message]protobuf.Message{exportOf(parts...): exportOf(somePart(large[:3])), importOf(parts...): importOf(somePart(large[:3]))} {
			ours, err := Codec().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := protobuf.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours.Materialize(), theirs) {
				t.Errorf("%T of %d parts is coded differently", m, len(parts))
			}
			for _, size := range []int{1, 7, 16 << 10, 1 << 20} {
				got.ProtoReflect().SetUnknown([]byte{0x38, 1}) // of a message before
				if err := Codec().Unmarshal(split(theirs, size), got); err != nil || !protobuf.Equal(got, m) {
					t.Errorf("%T of %d parts comes back different from pieces of %d, %v", m, len(parts), size, err)
				}
			}
		}
	}
}

func TestCodecOfPartsSharesOneCopy(t *testing.T) {
	parts := make([]*pb.CheckpointPart, 50)
	for i := range parts {
		parts[i] = somePart(make([]byte, 10<<10))
	}
	wire, err := Codec().Marshal(exportOf(parts...))
	if err != nil {
		t.Fatal(err)
	}
	data := split(wire.Materialize(), 16<<10)
	got := exportOf()
	allocs := testing.AllocsPerRun(100, func() {
		if err := Codec().Unmarshal(data, got); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 {
		t.Errorf("%d parts cost %v allocations", len(parts), allocs)
	}
}

func TestWhatIsAppendedToAPartLeavesTheOthersAlone(t *testing.T) {
	want := exportOf(somePart(make([]byte, minParts)), somePart(make([]byte, 100)))
	wire, err := protobuf.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &pb.ExportCheckpointResponse{}
	if err := Codec().Unmarshal(split(wire, len(wire)), got); err != nil {
		t.Fatal(err)
	}
	first := got.GetParts().Parts[0]
	_ = append(first.Object, bytes.Repeat([]byte{9}, 64)...)
	_ = append(first.Data, bytes.Repeat([]byte{9}, 64)...)
	if !protobuf.Equal(got, want) {
		t.Error("what follows in the message has changed")
	}
}

// FuzzPartsCodec decodes arbitrary bytes as the stock codec does. Requests differ only in the number of one field.
func FuzzPartsCodec(f *testing.F) {
	data := bytes.Repeat([]byte("x"), minParts)
	for _, m := range []*pb.ExportCheckpointResponse{exportOf(somePart(data)), exportOf(&pb.CheckpointPart{Data: data}, somePart(data[:9]), &pb.CheckpointPart{})} {
		wire, err := protobuf.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, 3)
		f.Add(append(wire, wire...), 1) // a field that comes again
		f.Add(wire[:len(wire)-1], 5)
		_, _, n := protowire.ConsumeTag(wire)
		parts, _ := protowire.ConsumeBytes(wire[n:])
		_, _, n = protowire.ConsumeTag(parts)
		part, _ := protowire.ConsumeBytes(parts[n:])
		for _, more := range [][]byte{
			part, {8, 1}, // fields again, and one of another type
			{16, 1}, {24, 0x81, 0x80, 0x80, 0x80, 0x70}, {34, 0}, // a size, an encoding of more than 32 bits, and data again
			{42, 1, 1}, {48, 3}, {10}, // unknown fields, and one that is cut off
		} {
			again := protowire.AppendBytes(protowire.AppendTag(nil, partField, protowire.BytesType), append(bytes.Clone(part), more...))
			f.Add(protowire.AppendBytes(protowire.AppendTag(nil, exportPartsField, protowire.BytesType), again), 100)
		}
	}
	f.Fuzz(func(t *testing.T, wire []byte, size int) {
		wantAsStock(t, wire, size, &pb.ExportCheckpointResponse{}, &pb.ExportCheckpointResponse{})
	})
}
