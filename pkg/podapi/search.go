package podapi

import (
	"context"
	"io/fs"
	"iter"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Glob returns the files whose names match pattern, as [fsops.FS.Glob] does.
// A directory that could not be read is an *[fsops.SkippedError], after which
// the loop goes on; any other error is the last value.
func (c *Client) Glob(ctx context.Context, pattern string, opts fsops.GlobOptions) iter.Seq2[fsops.GlobMatch, error] {
	request := &pb.GlobRequest{
		Pattern: []byte(pattern), Dir: []byte(opts.Dir), Limit: int64(opts.Limit),
		NoHidden: opts.NoHidden, Ignore: opts.Ignore, Sort: pb.GlobSort(opts.Sort), // of the same numbers
	}
	return func(yield func(fsops.GlobMatch, error) bool) {
		for r, err := range receive(ctx, request, c.files.Glob) {
			if err != nil {
				yield(fsops.GlobMatch{}, pathError("glob", pattern, err))
				return
			}
			if end := r.GetEnd(); end != nil {
				if end.Truncated {
					yield(fsops.GlobMatch{Truncated: true}, nil)
				}
				return
			}
			if e := r.GetUnreadable(); e != nil && !yield(fsops.GlobMatch{}, &fsops.SkippedError{Err: wire.DecodeError(e)}) {
				return
			}
			for _, m := range r.GetBatch().GetMatches() {
				if !yield(fsops.GlobMatch{Path: string(m.Path), Type: fs.FileMode(m.Type)}, nil) {
					return
				}
			}
		}
	}
}

// Grep returns the lines that match pattern, as [fsops.FS.Grep] does. A file
// that could not be searched is a result; an error is the last value.
func (c *Client) Grep(ctx context.Context, pattern string, opts fsops.GrepOptions) iter.Seq2[fsops.GrepResult, error] {
	request := &pb.GrepRequest{
		Pattern: []byte(pattern), Paths: toBytes(opts.Paths),
		IgnoreCase: opts.IgnoreCase, SmartCase: opts.SmartCase,
		Fixed: opts.Fixed, Word: opts.Word, Multiline: opts.Multiline,
		Report: pb.GrepReport(opts.Report), // of the same numbers
		Spans:  opts.Spans, MaxLine: int64(opts.MaxLine),
		Include: toBytes(opts.Include), Exclude: toBytes(opts.Exclude),
		Before: int64(opts.Before), After: int64(opts.After),
		MaxPerFile: int64(opts.MaxPerFile), Limit: int64(opts.Limit),
		Hidden: opts.Hidden, NoIgnore: opts.NoIgnore, Follow: opts.Follow, Sort: opts.Sort,
	}
	return func(yield func(fsops.GrepResult, error) bool) {
		for r, err := range receive(ctx, request, c.files.Grep) {
			if err != nil {
				yield(fsops.GrepResult{}, pathError("grep", pattern, err))
				return
			}
			if end := r.GetEnd(); end != nil {
				stats := fsops.GrepStats{Files: end.Files, Matches: end.Matches, Truncated: end.Truncated}
				yield(fsops.GrepResult{Kind: fsops.GrepDone, Stats: stats}, nil)
				return
			}
			for _, result := range r.GetBatch().GetResults() {
				if _, known := grepKinds[result.Kind]; known && !yield(grepResultFromProto(result), nil) {
					return
				}
			}
		}
	}
}

func grepResultFromProto(r *pb.GrepResult) fsops.GrepResult {
	out := fsops.GrepResult{
		Kind: grepKinds[r.Kind], Path: string(r.Path),
		Line: r.Line, Offset: r.Offset, Text: r.Text, Cut: r.Cut, Count: r.Count,
	}
	for i := 0; i+1 < len(r.Spans); i += 2 {
		out.Spans = append(out.Spans, fsops.Span{Start: int(r.Spans[i]), End: int(r.Spans[i+1])})
	}
	if r.Error != nil {
		out.Err = wire.DecodeError(r.Error)
	}
	return out
}

// Watch reports what happens to the file or directory of that name, until the
// loop ends or the name is gone. opts.Ready is called when the agent says that
// everything is watched.
func (c *Client) Watch(ctx context.Context, name string, opts fsops.WatchOptions) iter.Seq2[fsops.WatchEvent, error] {
	request := &pb.WatchRequest{Path: []byte(name), Recursive: opts.Recursive, Ignore: opts.Ignore}
	return func(yield func(fsops.WatchEvent, error) bool) {
		for r, err := range receive(ctx, request, c.files.Watch) {
			if err != nil {
				yield(fsops.WatchEvent{}, pathError("watch", name, err))
				return
			}
			if r.GetEnd() != nil {
				return
			}
			for _, e := range r.GetBatch().GetEvents() {
				if e.Op == pb.WatchOp_WATCH_OP_READY && opts.Ready != nil {
					opts.Ready()
				}
				if _, known := watchOps[e.Op]; known && !yield(watchEventFromProto(e), nil) {
					return
				}
			}
		}
	}
}

func watchEventFromProto(e *pb.WatchEvent) fsops.WatchEvent {
	return fsops.WatchEvent{Op: watchOps[e.Op], Path: string(e.Path), From: string(e.From), Time: time.Unix(0, e.Time)}
}

// grepKinds and watchOps are those that this client knows. What a later agent
// may add is left out, as the contract says.
var grepKinds = map[pb.GrepKind]fsops.GrepKind{
	pb.GrepKind_GREP_KIND_MATCH:          fsops.GrepMatch,
	pb.GrepKind_GREP_KIND_CONTEXT:        fsops.GrepContext,
	pb.GrepKind_GREP_KIND_FILE_ERROR:     fsops.GrepFileError,
	pb.GrepKind_GREP_KIND_BINARY:         fsops.GrepBinary,
	pb.GrepKind_GREP_KIND_FILE_TRUNCATED: fsops.GrepFileTruncated,
	pb.GrepKind_GREP_KIND_FILE:           fsops.GrepFile,
}

var watchOps = map[pb.WatchOp]fsops.WatchOp{
	pb.WatchOp_WATCH_OP_CREATE:   fsops.WatchCreate,
	pb.WatchOp_WATCH_OP_WRITE:    fsops.WatchWrite,
	pb.WatchOp_WATCH_OP_REMOVE:   fsops.WatchRemove,
	pb.WatchOp_WATCH_OP_RENAME:   fsops.WatchRename,
	pb.WatchOp_WATCH_OP_CHMOD:    fsops.WatchChmod,
	pb.WatchOp_WATCH_OP_OVERFLOW: fsops.WatchOverflow,
}
