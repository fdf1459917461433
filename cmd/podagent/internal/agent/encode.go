package agent

import (
	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func attrToProto(a fsops.Attr) *pb.Attr {
	return &pb.Attr{
		Path:   []byte(a.Path),
		Size:   a.Size,
		Mode:   uint32(a.Mode),
		Mtime:  a.ModTime.UnixNano(),
		Uid:    a.UID,
		Gid:    a.GID,
		Target: []byte(a.Target),
		Etag:   a.ETag,
	}
}

func sumToProto(s fsops.Sum) *pb.Sum { return &pb.Sum{Size: s.Size, Crc32C: s.CRC32C} }

func sumFromProto(s *pb.Sum) fsops.Sum {
	return fsops.Sum{Size: s.GetSize(), CRC32C: s.GetCrc32C()}
}

func linesToProto(l fsops.Lines) *pb.LineResult {
	return &pb.LineResult{First: l.First, Count: l.Count, Total: l.Total, Truncated: l.Truncated, CutLine: l.CutLine}
}

func writeResultToProto(r fsops.WriteResult) *pb.WriteResponse {
	return &pb.WriteResponse{Attr: attrToProto(r.Attr), Created: r.Created, InPlace: r.InPlace}
}

func treeStatsToProto(s fsops.TreeStats) *pb.TreeStats {
	return &pb.TreeStats{Entries: s.Entries, Bytes: s.Bytes, Skipped: s.Skipped}
}

func grepResultToProto(r fsops.GrepResult) *pb.GrepResult {
	out := &pb.GrepResult{
		Kind: pb.GrepKind(r.Kind), Path: []byte(r.Path),
		Line: r.Line, Offset: r.Offset, Text: r.Text, Cut: r.Cut,
	}
	for _, s := range r.Spans {
		out.Spans = append(out.Spans, int64(s.Start), int64(s.End))
	}
	if r.Err != nil {
		out.Error = podapi.EncodeError(r.Err)
	}
	return out
}

func exitToProto(s *proc.Status) *pb.ExecExit {
	if s == nil {
		return nil
	}
	return &pb.ExecExit{
		Reason: pb.ExitReason(s.Reason), Code: int32(s.Code), Signal: uint32(s.Signal), OutputOpen: s.OutputOpen,
		Stdout: s.Stdout, Stderr: s.Stderr,
		Wall: int64(s.Wall), User: int64(s.User), System: int64(s.System), MaxRss: s.MaxRSS,
	}
}
