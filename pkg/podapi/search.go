package podapi

import (
	"cmp"
	"context"
	"io/fs"
	"iter"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Glob returns the files whose names match pattern, as [fsops.FS.Glob] does. An
// error is the last value. If directories could not be read, that is a
// *[fsops.SkippedError].
func (c *Client) Glob(ctx context.Context, pattern string, opts fsops.GlobOptions) iter.Seq2[fsops.GlobMatch, error] {
	request := &pb.GlobRequest{
		Pattern: []byte(pattern), Dir: []byte(opts.Dir), Limit: int64(opts.Limit),
		NoHidden: opts.NoHidden, Ignore: opts.Ignore, Sort: pb.GlobSort(opts.Sort), // of the same numbers
	}
	return func(yield func(fsops.GlobMatch, error) bool) {
		stats := cmp.Or(opts.Stats, &fsops.GlobStats{})
		*stats = fsops.GlobStats{}
		var skipped fsops.SkippedError
		err := eachMessage(receive(ctx, request, c.files.Glob), func(r *pb.GlobResponse) error {
			if end := r.GetEnd(); end != nil {
				*stats = fsops.GlobStats{Matches: end.Count, Truncated: end.Truncated}
				return allSkipped(&skipped, end.Skipped)
			}
			if e := r.GetUnreadable(); e != nil {
				skipped.Add(wire.DecodeError(e))
			}
			for _, m := range r.GetBatch().GetMatches() {
				stats.Matches++
				if !yield(fsops.GlobMatch{Path: string(m.Path), Type: fs.FileMode(m.Type)}, nil) {
					return errLoopLeft
				}
			}
			return nil
		})
		endResults(yield, pathError("glob", pattern, err))
	}
}

// Grep returns the lines that match pattern, as [fsops.FS.Grep] does. An error is the
// last value. If files could not be searched, that is a *[fsops.SkippedError]. If the loop ends early, opts.Stats has the number of matches alone.
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
		g := grepResults{opts: &opts, stats: cmp.Or(opts.Stats, &fsops.GrepStats{}), yield: yield}
		*g.stats = fsops.GrepStats{}
		err := eachMessage(receive(ctx, request, c.files.Grep), g.take)
		endResults(yield, pathError("grep", pattern, err))
	}
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
					opts.Ready = nil // an agent may say it again
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

// watchOps are those that this client knows. What a later agent may add is left out,
// as the contract says.
var watchOps = map[pb.WatchOp]fsops.WatchOp{
	pb.WatchOp_WATCH_OP_CREATE:   fsops.WatchCreate,
	pb.WatchOp_WATCH_OP_WRITE:    fsops.WatchWrite,
	pb.WatchOp_WATCH_OP_REMOVE:   fsops.WatchRemove,
	pb.WatchOp_WATCH_OP_RENAME:   fsops.WatchRename,
	pb.WatchOp_WATCH_OP_CHMOD:    fsops.WatchChmod,
	pb.WatchOp_WATCH_OP_OVERFLOW: fsops.WatchOverflow,
}
