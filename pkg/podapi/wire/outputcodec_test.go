package wire

import (
	"bytes"
	"testing"

	protobuf "google.golang.org/protobuf/proto"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func stdoutMessage(data []byte, offset, omitted int64) *pb.ExecResponse {
	return &pb.ExecResponse{Kind: &pb.ExecResponse_Stdout{Stdout: &pb.OutputChunk{Data: data, Offset: offset, Omitted: omitted}}}
}

func TestCodecOfOutputIsProtobufOnTheWire(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789abcdef"), outputChunk/16)
	for _, m := range []*pb.ExecResponse{
		stdoutMessage([]byte("hello\n"), 0, 0),
		stdoutMessage(nil, 1<<40, 7),
		stdoutMessage(large, 1<<62, 1<<61),
		stdoutMessage(large[:minOutput], 0, 0),
		stdoutMessage(append(large, 'x'), 5, 0),
		{Kind: &pb.ExecResponse_Stderr{Stderr: &pb.OutputChunk{Data: large, Offset: 3}}},
		{Kind: &pb.ExecResponse_Exit{Exit: &pb.ExecExit{Stdout: 3}}},
		{},
	} {
		ours, err := Codec().Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		stock := &pb.ExecResponse{}
		if err := protobuf.Unmarshal(ours.Materialize(), stock); err != nil || !protobuf.Equal(stock, m) {
			t.Errorf("%.60v is coded as %.60v, %v", m, stock, err)
		}
		theirs, err := protobuf.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, wire := range [][]byte{ours.Materialize(), theirs} {
			for _, size := range []int{1, 7, 16 << 10, 1 << 20} {
				got := stdoutMessage([]byte("what was received before"), 1, 2)
				if err := Codec().Unmarshal(split(wire, size), got); err != nil || !protobuf.Equal(got, m) {
					t.Errorf("in parts of %d: %.60v, %v, want %.60v", size, got, err, m)
				}
			}
		}
	}
}

func TestCodecUsesTheBuffersOfOutputAgain(t *testing.T) {
	wire, err := Codec().Marshal(stdoutMessage(make([]byte, outputChunk), 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	m := &pb.ExecResponse{}
	cost := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := Codec().Unmarshal(wire, m); err != nil {
				b.Fatal(err)
			}
			Recycle(m.GetStdout().Data)
		}
	}).AllocedBytesPerOp()
	// The collector empties the pool now and then, and the race detector makes it
	// lose every fourth buffer.
	if cost > outputChunk/2 {
		t.Errorf("a chunk of %d bytes costs %d bytes of new memory", outputChunk, cost)
	}
}

// FuzzOutputCodec decodes arbitrary bytes as the stock codec does.
func FuzzOutputCodec(f *testing.F) {
	data := bytes.Repeat([]byte("x"), minOutput)
	for _, m := range []*pb.ExecResponse{stdoutMessage(data, 300, 0), stdoutMessage(data, 1, 1<<50), {Kind: &pb.ExecResponse_Stderr{Stderr: &pb.OutputChunk{Data: data}}}} {
		ours, err := Codec().Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		wire := ours.Materialize()
		f.Add(wire[:len(wire)-minOutput], minOutput, 3)
		f.Add(wire[:len(wire)-minOutput], minOutput-1, 1)
		f.Add(append([]byte{0x12, 0x00}, wire[:len(wire)-minOutput]...), minOutput, 5)
	}
	f.Fuzz(func(t *testing.T, head []byte, n, size int) {
		wire := append(bytes.Clone(head), bytes.Repeat([]byte{1}, max(0, min(n, 2*outputChunk)))...)
		wantAsStock(t, wire, size, &pb.ExecResponse{}, &pb.ExecResponse{})
	})
}
