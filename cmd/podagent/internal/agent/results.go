package agent

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// The handlers of this file stream results: many small ones, in batches. fsops returns
// the results of searches in batches that are ready to send.

func (s *filesService) List(r *pb.ListRequest, stream grpc.ServerStreamingServer[pb.ListResponse]) error {
	batch := batcher[*pb.Attr]{send: func(attrs []*pb.Attr) error {
		return stream.Send(&pb.ListResponse{Kind: &pb.ListResponse_Batch{Batch: &pb.AttrBatch{Attrs: attrs}}})
	}}
	defer batch.stop()
	end := &pb.ListEnd{}
	var skipped []error
	for attr, err := range s.fs.List(stream.Context(), string(r.Path), fsops.ListOptions{Recursive: r.Recursive}) {
		if err == nil {
			end.Count++
			err = batch.add(attrToProto(attr), len(attr.Path)+len(attr.Target)+attrBytes)
		} else {
			skipped, end.Skipped, err = skippedBy(err)
		}
		if err != nil {
			return err
		}
	}
	return batch.between(func() error {
		for _, err := range skipped {
			unreadable := &pb.ListResponse{Kind: &pb.ListResponse_Unreadable{Unreadable: wire.EncodeError(err)}}
			if err := stream.Send(unreadable); err != nil {
				return err
			}
		}
		return stream.Send(&pb.ListResponse{Kind: &pb.ListResponse_End{End: end}})
	})
}

// skippedBy looks at the last error of a loop over results. If that says what was
// skipped, it returns the errors in it and their total number; otherwise the error.
func skippedBy(err error) (errs []error, total int64, other error) {
	skipped, ok := errors.AsType[*fsops.SkippedError](err)
	if !ok {
		return nil, 0, err
	}
	return skipped.Errs, skipped.Total(), nil
}

func (s *filesService) Glob(r *pb.GlobRequest, stream grpc.ServerStreamingServer[pb.GlobResponse]) error {
	opts, err := globOptions(r)
	if err != nil {
		return err
	}
	opts.Stats = &fsops.GlobStats{}
	end := &pb.GlobEnd{}
	var skipped []error
	for matches, err := range s.fs.GlobBatches(stream.Context(), string(r.Pattern), opts) {
		if err == nil {
			err = stream.Send(&pb.GlobResponse{Kind: &pb.GlobResponse_Batch{Batch: globBatchToProto(matches)}})
		} else {
			skipped, end.Skipped, err = skippedBy(err)
		}
		if err != nil {
			return err
		}
	}
	for _, err := range skipped {
		if err := stream.Send(&pb.GlobResponse{Kind: &pb.GlobResponse_Unreadable{Unreadable: wire.EncodeError(err)}}); err != nil {
			return err
		}
	}
	end.Count, end.Truncated = opts.Stats.Matches, opts.Stats.Truncated
	return stream.Send(&pb.GlobResponse{Kind: &pb.GlobResponse_End{End: end}})
}

func globOptions(r *pb.GlobRequest) (fsops.GlobOptions, error) {
	sort, ok := globSorts[r.Sort]
	if !ok {
		return fsops.GlobOptions{}, fmt.Errorf("order %d of matches is not known: %w", r.Sort, syscall.EINVAL)
	}
	return fsops.GlobOptions{
		Dir: string(r.Dir), Limit: int(r.Limit), NoHidden: r.NoHidden, Ignore: r.Ignore, Sort: sort,
	}, nil
}

func (s *filesService) Grep(r *pb.GrepRequest, stream grpc.ServerStreamingServer[pb.GrepResponse]) error {
	opts, err := grepOptions(r)
	if err != nil {
		return err
	}
	opts.Stats = &fsops.GrepStats{}
	send := func(batch *pb.GrepBatch) error {
		return stream.Send(&pb.GrepResponse{Kind: &pb.GrepResponse_Batch{Batch: batch}})
	}
	var total int64
	for results, err := range s.fs.GrepBatches(stream.Context(), string(r.Pattern), opts) {
		if err == nil {
			err = send(grepBatchToProto(results))
		} else {
			var skipped []error
			if skipped, total, err = skippedBy(err); err == nil {
				err = send(skippedToProto(skipped))
			}
		}
		if err != nil {
			return err
		}
	}
	end := grepStatsToProto(*opts.Stats)
	end.Skipped = total
	return stream.Send(&pb.GrepResponse{Kind: &pb.GrepResponse_End{End: end}})
}

func grepOptions(r *pb.GrepRequest) (fsops.GrepOptions, error) {
	report, ok := grepReports[r.Report]
	if !ok {
		return fsops.GrepOptions{}, fmt.Errorf("report %d of a search is not known: %w", r.Report, syscall.EINVAL)
	}
	return fsops.GrepOptions{
		Paths: toStrings(r.Paths), IgnoreCase: r.IgnoreCase, SmartCase: r.SmartCase,
		Fixed: r.Fixed, Word: r.Word, Multiline: r.Multiline,
		Report: report, Spans: r.Spans, MaxLine: int(r.MaxLine),
		Include: toStrings(r.Include), Exclude: toStrings(r.Exclude),
		Before: int(r.Before), After: int(r.After),
		MaxPerFile: int(r.MaxPerFile), Limit: int(r.Limit),
		Hidden: r.Hidden, NoIgnore: r.NoIgnore, Follow: r.Follow, Sort: r.Sort,
	}, nil
}

func (s *filesService) Watch(r *pb.WatchRequest, stream grpc.ServerStreamingServer[pb.WatchResponse]) error {
	ctx, cancel := s.untilStop(stream.Context())
	defer cancel()
	batch := batcher[*pb.WatchEvent]{delay: watchDelay, send: func(events []*pb.WatchEvent) error {
		return stream.Send(&pb.WatchResponse{Kind: &pb.WatchResponse_Batch{Batch: &pb.WatchBatch{Events: events}}})
	}}
	defer batch.stop()
	ready := func() { // the next add returns its error
		_ = batch.add(&pb.WatchEvent{Op: pb.WatchOp_WATCH_OP_READY, Path: r.Path, Time: time.Now().UnixNano()}, len(r.Path))
	}
	for event, err := range s.fs.Watch(ctx, string(r.Path), fsops.WatchOptions{Recursive: r.Recursive, Ignore: r.Ignore, Ready: ready}) {
		if err != nil {
			_ = batch.between(func() error { return nil }) // what happened before it
			return orCause(ctx, err)
		}
		if err := batch.add(watchEventToProto(event), len(event.Path)+len(event.From)); err != nil {
			return err
		}
	}
	return batch.between(func() error {
		return stream.Send(&pb.WatchResponse{Kind: &pb.WatchResponse_End{End: &pb.WatchEnd{}}})
	})
}

// untilStop returns a context that ends with ctx or when the agent stops, for
// calls that would otherwise go on for ever.
func (a *Agent) untilStop(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-a.stopping:
			cancel(wire.ErrUnavailable)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}
