package podapi

import (
	"cmp"
	"context"
	"io"
	"io/fs"
	"iter"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// Glob returns the files whose names match pattern, as [fsops.FS.Glob] does.
func (c *Client) Glob(ctx context.Context, pattern string, opts fsops.GlobOptions) iter.Seq2[fsops.GlobMatch, error] {
	request := &pb.GlobRequest{
		Pattern: []byte(pattern), Dir: []byte(opts.Dir), Limit: int64(opts.Limit),
		NoHidden: opts.NoHidden, Ignore: opts.Ignore, Sort: pb.GlobSort(opts.Sort), // the numbers are the same
	}
	return func(yield func(fsops.GlobMatch, error) bool) {
		stats := cmp.Or(opts.Stats, &fsops.GlobStats{})
		*stats = fsops.GlobStats{}
		var skipped fsops.SkippedError
		var idle idleMessages
		err := eachMessage(receive(ctx, request, c.files.Glob), func(r *pb.GlobResponse) error {
			matches := r.GetBatch().GetMatches()
			switch end, e := r.GetEnd(), r.GetUnreadable(); {
			case end != nil && end.Count != stats.Matches:
				return protocolError("%d matches, and not the %d of the end", stats.Matches, end.Count)
			case end != nil:
				stats.Truncated = end.Truncated
				return allSkipped(&skipped, end.Skipped)
			case e != nil:
				return addSkipped(&skipped, "glob", pattern, skippedReason(e))
			case len(matches) == 0:
				return idle.add()
			}
			for _, m := range matches {
				if stats.Matches++; opts.Limit > 0 && stats.Matches > int64(opts.Limit) {
					return protocolError("more than the %d matches that were asked for", opts.Limit)
				}
				if err := checkPath(m.Path); err != nil {
					return err
				}
				if !yield(fsops.GlobMatch{Path: string(m.Path), Type: fs.FileMode(m.Type)}, nil) {
					return errLoopLeft
				}
			}
			return nil
		})
		endResults(yield, pathError("glob", pattern, err))
	}
}

// Grep returns the lines that match pattern, as [fsops.FS.Grep] does. If the loop ends
// early, opts.Stats has only the number of matches.
func (c *Client) Grep(ctx context.Context, pattern string, opts fsops.GrepOptions) iter.Seq2[fsops.GrepResult, error] {
	request := &pb.GrepRequest{
		Pattern: []byte(pattern), Paths: toBytes(opts.Paths),
		IgnoreCase: opts.IgnoreCase, SmartCase: opts.SmartCase,
		Fixed: opts.Fixed, Word: opts.Word, Multiline: opts.Multiline,
		Report: pb.GrepReport(opts.Report), // the numbers are the same
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

// Watch reports what happens to the file or directory of that name, until the loop
// ends or the name is gone. opts.Ready is called when all is watched.
func (c *Client) Watch(ctx context.Context, name string, opts fsops.WatchOptions) iter.Seq2[fsops.WatchEvent, error] {
	request := &pb.WatchRequest{Path: []byte(name), Recursive: opts.Recursive, Ignore: opts.Ignore}
	return func(yield func(fsops.WatchEvent, error) bool) {
		w := watchResults{opts: &opts, yield: yield}
		err := eachMessage(receive(ctx, request, c.files.Watch), w.take)
		endResults(yield, pathError("watch", name, err))
	}
}

// watchResults gives the events of a watch to its caller.
type watchResults struct {
	opts  *fsops.WatchOptions
	yield func(fsops.WatchEvent, error) bool
	idle  idleMessages // since the last event: a watch may take days
}

func (w *watchResults) take(r *pb.WatchResponse) error {
	if r.GetEnd() != nil {
		return io.EOF
	}
	for _, e := range r.GetBatch().GetEvents() {
		if e.Op == pb.WatchOp_WATCH_OP_READY && w.opts.Ready != nil {
			w.opts.Ready()
			w.opts.Ready = nil // an agent may repeat it
		}
		if _, known := watchOps[e.Op]; !known {
			continue
		}
		w.idle = 0
		if err := firstError(checkPath(e.Path), checkPath(e.From)); err != nil {
			return err
		}
		if !w.yield(watchEventFromProto(e), nil) {
			return errLoopLeft
		}
	}
	return w.idle.add()
}

func watchEventFromProto(e *pb.WatchEvent) fsops.WatchEvent {
	return fsops.WatchEvent{Op: watchOps[e.Op], Path: string(e.Path), From: string(e.From), Time: time.Unix(0, e.Time)}
}

// watchOps are those that this client knows. Unknown ones of later agents are left
// out, as the contract says.
var watchOps = map[pb.WatchOp]fsops.WatchOp{
	pb.WatchOp_WATCH_OP_CREATE:   fsops.WatchCreate,
	pb.WatchOp_WATCH_OP_WRITE:    fsops.WatchWrite,
	pb.WatchOp_WATCH_OP_REMOVE:   fsops.WatchRemove,
	pb.WatchOp_WATCH_OP_RENAME:   fsops.WatchRename,
	pb.WatchOp_WATCH_OP_CHMOD:    fsops.WatchChmod,
	pb.WatchOp_WATCH_OP_OVERFLOW: fsops.WatchOverflow,
}
