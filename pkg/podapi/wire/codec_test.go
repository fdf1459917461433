package wire

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	protobuf "google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func dataMessage(data []byte) *pb.WriteRequest {
	return &pb.WriteRequest{Kind: &pb.WriteRequest_Data{Data: data}}
}

// split cuts data into parts, as frames do.
func split(data []byte, size int) mem.BufferSlice {
	var parts mem.BufferSlice
	for len(data) > size {
		parts = append(parts, mem.SliceBuffer(data[:size]))
		data = data[size:]
	}
	return append(parts, mem.SliceBuffer(data))
}

func TestCodecIsProtobufOnTheWire(t *testing.T) {
	stock := encoding.GetCodecV2(proto.Name)
	for _, m := range []*pb.WriteRequest{
		dataMessage([]byte("content")),
		dataMessage([]byte{}),
		dataMessage(bytes.Repeat([]byte("x"), ChunkSize)),
		{Kind: &pb.WriteRequest_Header{Header: &pb.WriteHeader{Path: []byte("a\xff")}}},
		{Kind: &pb.WriteRequest_End{End: &pb.WriteEnd{Sum: &pb.Sum{Size: 3}}}},
		{},
	} {
		ours, err := Codec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := stock.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(ours.Materialize(), theirs.Materialize()) {
			t.Errorf("%.40v is coded as %.40x, want %.40x", m, ours.Materialize(), theirs.Materialize())
		}
		for _, size := range []int{1, 2, 7, 1 << 20} {
			got := dataMessage([]byte("what was received before"))
			if err := Codec().Unmarshal(split(theirs.Materialize(), size), got); err != nil {
				t.Fatal(err)
			}
			if !protobuf.Equal(got, m) {
				t.Errorf("in parts of %d: %.40v, want %.40v", size, got, m)
			}
		}
	}
}

func TestCodecOfConnectionsIsProtobufOnTheWire(t *testing.T) {
	stock := encoding.GetCodecV2(proto.Name)
	for _, size := range []int{0, 1, pb.DialChunk, 3 * pb.DialChunk} {
		data := bytes.Repeat([]byte("x"), size)
		for m, got := range map[protobuf.Message]protobuf.Message{
			&pb.DialRequest{Kind: &pb.DialRequest_Data{Data: data}}:   &pb.DialRequest{},
			&pb.DialResponse{Kind: &pb.DialResponse_Data{Data: data}}: &pb.DialResponse{},
		} {
			ours, err := Codec().Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := stock.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(ours.Materialize(), theirs.Materialize()) {
				t.Errorf("%T of %d bytes is coded differently", m, size)
			}
			if err := Codec().Unmarshal(split(theirs.Materialize(), 7), got); err != nil || !protobuf.Equal(got, m) {
				t.Errorf("%T of %d bytes comes back different, %v", m, size, err)
			}
		}
	}
}

func TestCodecUsesTheBufferOfAChunkAgain(t *testing.T) {
	wire, err := Codec().Marshal(dataMessage(make([]byte, ChunkSize)))
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.WriteRequest{}
	allocs := testing.AllocsPerRun(100, func() {
		if err := Codec().Unmarshal(wire, m); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 1 {
		t.Errorf("a chunk costs %v allocations", allocs)
	}
}

// FuzzCodec decodes arbitrary bytes as the stock codec does.
func FuzzCodec(f *testing.F) {
	for _, m := range []*pb.WriteRequest{dataMessage([]byte("content")), {Kind: &pb.WriteRequest_End{}}} {
		wire, err := protobuf.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire, 3)
		f.Add(append(wire, wire...), 1) // the last value of a field wins
		f.Add(wire[:len(wire)-1], 5)
	}
	f.Fuzz(func(t *testing.T, wire []byte, size int) {
		wantAsStock(t, wire, size, &pb.WriteRequest{}, &pb.WriteRequest{})
	})
}

// wantAsStock expects that both codecs make the same of a text, in pieces of a size, and of two empty messages.
func wantAsStock(t *testing.T, wire []byte, size int, got, want protobuf.Message) {
	t.Helper()
	gotErr := Codec().Unmarshal(split(wire, max(size, 1)), got)
	wantErr := protobuf.Unmarshal(wire, want)
	if (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%.80x: %v, want %v", wire, gotErr, wantErr)
	}
	if wantErr == nil && !protobuf.Equal(got, want) {
		t.Errorf("%.80x: %.80v, want %.80v", wire, got, want)
	}
}
