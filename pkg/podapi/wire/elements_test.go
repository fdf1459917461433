package wire

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func TestWhatAgentsSendInManyPartsIsRefusedAndRequestsAreNot(t *testing.T) {
	texts := func(n int) [][]byte { return make([][]byte, n) }
	matches := func(n int) *pb.GlobResponse {
		batch := &pb.GlobBatch{}
		for range n {
			batch.Matches = append(batch.Matches, &pb.GlobMatch{})
		}
		return &pb.GlobResponse{Kind: &pb.GlobResponse_Batch{Batch: batch}}
	}
	parts := &pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Parts{Parts: &pb.CheckpointParts{}}}
	for range 1 << 20 {
		parts.GetParts().Parts = append(parts.GetParts().Parts, &pb.CheckpointPart{})
	}
	large := &pb.EditResponse{Diff: bytes.Repeat([]byte("\x0a\x00"), 1<<20)} // looks like a million fields
	for name, test := range map[string]struct {
		message, to proto.Message
		refused     bool
	}{
		"as many as may be": {matches(maxElements - 1), &pb.GlobResponse{}, false},
		"one more":          {matches(maxElements), &pb.GlobResponse{}, true},
		"a million":         {matches(1 << 20), &pb.GlobResponse{}, true},
		"a long text":       {large, &pb.EditResponse{}, false},
		"a list of texts":   {&pb.InfoResponse{Capabilities: make([]string, 1<<20)}, &pb.InfoResponse{}, true},
		"an import":         {parts, &pb.ImportCheckpointRequest{}, true},
		"arguments":         {&pb.ExecRequest{Kind: &pb.ExecRequest_Start{Start: &pb.ExecStart{Argv: texts(1 << 20)}}}, &pb.ExecRequest{}, false},
	} {
		data, err := proto.Marshal(test.message)
		if err != nil {
			t.Fatal(err)
		}
		// Messages arrive in the pieces of HTTP/2's frames.
		half := len(data) / 2
		err = Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data[:half]), mem.SliceBuffer(data[half:])}, test.to)
		if (err != nil) != test.refused || err == nil && !proto.Equal(test.message, test.to) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTextsAndNumbersOfErrorsAreBounded(t *testing.T) {
	long := strings.Repeat("x\xff", 1<<20)
	for _, sent := range []*pb.Error{
		{Message: long},
		{Op: long, Path: []byte(long), Path2: []byte(long), Message: long},
		{Pattern: &pb.PatternDetail{Pattern: []byte(long), Message: long, Offset: 1 << 60}},
		{Edit: &pb.EditDetail{Hint: long, Index: -1, Count: -1 << 63}},
	} {
		err := DecodeError(sent)
		if n := len(err.Error()); n > 16<<10 {
			t.Errorf("%.20T has %d bytes", err, n)
		}
		if pattern, ok := errors.AsType[*fsops.PatternError](err); ok && pattern.Offset > len(long) {
			t.Errorf("the fault is at byte %d", pattern.Offset)
		}
		if edit, ok := errors.AsType[*fsops.EditError](err); ok && (edit.Index != 0 || edit.Count != 0) {
			t.Errorf("the edit is %d of %d", edit.Index, edit.Count)
		}
	}
	for code := range codes.Code(20) {
		err := FromStatus(status.Error(code, long))
		if code != codes.OK && len(err.Error()) > 16<<10 {
			t.Errorf("%v has %d bytes", code, len(err.Error()))
		}
	}
}

func TestStatusThatNobodySendsBreaksTheContract(t *testing.T) {
	for code, want := range map[codes.Code]error{
		codes.Unknown: ErrProtocol, codes.Internal: ErrProtocol, codes.DataLoss: ErrProtocol, 99: ErrProtocol, codes.Unavailable: ErrUnavailable,
	} {
		if err := FromStatus(status.Error(code, "x")); !errors.Is(err, want) {
			t.Errorf("%v is %v", code, err)
		}
	}
}
