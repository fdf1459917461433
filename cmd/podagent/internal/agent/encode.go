package agent

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
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

// The kinds on the wire, whatever numbers they have here.
var (
	grepKinds = map[fsops.GrepKind]pb.GrepKind{
		fsops.GrepMatch:   pb.GrepKind_GREP_KIND_MATCH,
		fsops.GrepContext: pb.GrepKind_GREP_KIND_CONTEXT,
		fsops.GrepFile:    pb.GrepKind_GREP_KIND_FILE,
	}
	grepReports = map[pb.GrepReport]fsops.GrepReport{
		pb.GrepReport_GREP_REPORT_UNSPECIFIED: fsops.GrepLines,
		pb.GrepReport_GREP_REPORT_FILES:       fsops.GrepFiles,
		pb.GrepReport_GREP_REPORT_COUNTS:      fsops.GrepCounts,
	}
	globSorts = map[pb.GlobSort]fsops.GlobSort{
		pb.GlobSort_GLOB_SORT_UNSPECIFIED: fsops.GlobUnsorted,
		pb.GlobSort_GLOB_SORT_NAME:        fsops.GlobByName,
		pb.GlobSort_GLOB_SORT_TIME:        fsops.GlobByTime,
	}
	watchOps = map[fsops.WatchOp]pb.WatchOp{
		fsops.WatchCreate:   pb.WatchOp_WATCH_OP_CREATE,
		fsops.WatchWrite:    pb.WatchOp_WATCH_OP_WRITE,
		fsops.WatchRemove:   pb.WatchOp_WATCH_OP_REMOVE,
		fsops.WatchRename:   pb.WatchOp_WATCH_OP_RENAME,
		fsops.WatchChmod:    pb.WatchOp_WATCH_OP_CHMOD,
		fsops.WatchOverflow: pb.WatchOp_WATCH_OP_OVERFLOW,
	}
	exitReasons = map[proc.Reason]pb.ExitReason{
		proc.Exited:      pb.ExitReason_EXIT_REASON_EXITED,
		proc.Signalled:   pb.ExitReason_EXIT_REASON_SIGNALLED,
		proc.TimedOut:    pb.ExitReason_EXIT_REASON_TIMED_OUT,
		proc.OutOfMemory: pb.ExitReason_EXIT_REASON_OUT_OF_MEMORY,
	}
)

func globBatchToProto(matches []fsops.GlobMatch) *pb.GlobBatch {
	list, out := make([]pb.GlobMatch, len(matches)), make([]*pb.GlobMatch, len(matches))
	for i, m := range matches {
		out[i] = &list[i]
		out[i].Path, out[i].Type = []byte(m.Path), uint32(m.Type)
	}
	return &pb.GlobBatch{Matches: out}
}

func grepBatchToProto(results []fsops.GrepResult) *pb.GrepBatch {
	list, out := make([]pb.GrepResult, len(results)), make([]*pb.GrepResult, len(results))
	var last string // results of one file come together, and share their path
	var path []byte
	for i := range results {
		r := &results[i]
		if r.Path != last {
			last, path = r.Path, []byte(r.Path)
		}
		out[i] = &list[i]
		out[i].Kind, out[i].Path = grepKinds[r.Kind], path
		out[i].Line, out[i].Offset, out[i].Text, out[i].Cut, out[i].Count = r.Line, r.Offset, r.Text, r.Cut, r.Count
		for _, s := range r.Spans {
			out[i].Spans = append(out[i].Spans, int64(s.Start), int64(s.End))
		}
	}
	return &pb.GrepBatch{Results: out}
}

// skippedToProto returns the results that say why files were not searched.
func skippedToProto(skipped []error) *pb.GrepBatch {
	batch := &pb.GrepBatch{}
	for _, err := range skipped {
		e := wire.EncodeError(err) // whose path is cut, so that all fit into a message
		r := &pb.GrepResult{Kind: pb.GrepKind_GREP_KIND_FILE_ERROR, Path: e.Path, Error: e}
		if binary, ok := errors.AsType[*fsops.BinaryError](err); ok {
			r.Kind, r.Offset = pb.GrepKind_GREP_KIND_BINARY, binary.Offset
		}
		batch.Results = append(batch.Results, r)
	}
	return batch
}

func grepStatsToProto(s fsops.GrepStats) *pb.GrepEnd {
	return &pb.GrepEnd{
		Files: s.Files, Matches: s.Matches, Truncated: s.Truncated, Binary: s.Binary, Shortened: s.Shortened,
	}
}

func watchEventToProto(e fsops.WatchEvent) *pb.WatchEvent {
	return &pb.WatchEvent{Op: watchOps[e.Op], Path: []byte(e.Path), From: []byte(e.From), Time: e.Time.UnixNano()}
}

func exitToProto(s *proc.Status) *pb.ExecExit {
	if s == nil {
		return nil
	}
	return &pb.ExecExit{
		Reason: exitReasons[s.Reason], Code: int32(s.Code), Signal: uint32(s.Signal), OutputOpen: s.OutputOpen,
		Stdout: s.Stdout, Stderr: s.Stderr,
		Wall: int64(s.Wall), User: int64(s.User), System: int64(s.System), MaxRss: s.MaxRSS,
		ProcessLimit: s.ProcessLimit,
	}
}

// sizeFromProto returns the size of a terminal, nil if there is none.
func sizeFromProto(s *pb.TerminalSize) (*proc.TerminalSize, error) {
	if s == nil {
		return nil, nil
	}
	if max(s.Rows, s.Columns) > math.MaxUint16 {
		return nil, fmt.Errorf("terminal of %d rows and %d columns: %w", s.Rows, s.Columns, syscall.EINVAL)
	}
	return &proc.TerminalSize{Rows: uint16(s.Rows), Columns: uint16(s.Columns)}, nil
}

func rlimitsFromProto(limits []*pb.Rlimit) []proc.Rlimit {
	var out []proc.Rlimit
	for _, l := range limits {
		out = append(out, proc.Rlimit{Resource: l.Resource, Soft: l.Soft, Hard: l.Hard})
	}
	return out
}

func processToProto(p proc.Info) *pb.ProcessInfo {
	info := &pb.ProcessInfo{
		ExecId: p.ID, Pid: int64(p.PID), Started: p.Started.UnixNano(), Exit: exitToProto(p.Status), Terminal: p.Terminal,
		Stdout: p.Stdout, Stderr: p.Stderr, StdoutKept: p.StdoutKept, StderrKept: p.StderrKept,
	}
	room := listedCommand
	told := func(s string) []byte {
		n := min(len(s), room)
		room -= n
		info.CommandCut += int64(len(s) - n)
		return []byte(s[:n])
	}
	info.Script = told(p.Script)
	for _, arg := range p.Argv {
		if room == 0 {
			info.CommandCut += int64(len(arg))
			continue
		}
		info.Argv = append(info.Argv, told(arg))
	}
	return info
}
