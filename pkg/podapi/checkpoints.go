package podapi

import (
	"context"
	"fmt"
	"io"
	"iter"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Checkpoint keeps what is in the workdir now, as [checkpoint.Store.Create] does. Keep the id outside of the sandbox:
// by it you notice (fsops.ErrChecksum) if commands change the checkpoint. A sandbox without a place for it gives
// [errors.ErrUnsupported], an old agent [ErrVersion], a full disk ENOSPC. EBUSY says that a restore could be neither
// completed nor undone: see [checkpoint.Store.Restore] for how to decide.
func (c *Client) Checkpoint(ctx context.Context, opts checkpoint.CreateOptions) (checkpoint.Checkpoint, error) {
	r, err := c.points.Create(ctx, &pb.CreateCheckpointRequest{Name: opts.Name, Automatic: opts.Automatic, Exclude: toBytes(opts.Exclude)})
	if err != nil {
		return checkpoint.Checkpoint{}, checkpointError(err)
	}
	result, err := checkpointFromProto(r.Checkpoint)
	if err == nil {
		result.LeftOut, err = leftFromProto(r.LeftOut)
	}
	for _, path := range r.Moving {
		err = firstError(err, checkTreePath(path))
		result.Moving = append(result.Moving, string(path))
	}
	result.MoreLeftOut, result.MoreMoving = r.MoreLeftOut, r.MoreMoving
	err = firstError(err, checkNumbers("a number of files", r.MoreLeftOut, r.MoreMoving))
	if err != nil {
		return checkpoint.Checkpoint{}, err
	}
	return result, nil
}

// Checkpoints lists the checkpoints, the oldest first.
func (c *Client) Checkpoints(ctx context.Context) ([]checkpoint.Checkpoint, error) {
	var list []checkpoint.Checkpoint
	var idle idleMessages
	err := eachMessage(receive(ctx, &pb.ListCheckpointsRequest{}, c.points.List), func(r *pb.ListCheckpointsResponse) error {
		if end := r.GetEnd(); end != nil {
			if end.Count != int64(len(list)) {
				return protocolError("%d checkpoints, and not the %d of the end", len(list), end.Count)
			}
			return io.EOF
		}
		if r.GetCheckpoint() == nil {
			return idle.add()
		}
		point, err := checkpointFromProto(r.GetCheckpoint())
		if list = append(list, point); len(list) > maxCheckpoints {
			err = protocolError("more than %d checkpoints", maxCheckpoints)
		}
		return err
	})
	if err != nil {
		return nil, checkpointError(err)
	}
	return list, nil
}

// RemoveCheckpoint drops a checkpoint, and what only it has.
func (c *Client) RemoveCheckpoint(ctx context.Context, id checkpoint.ID) error {
	_, err := c.points.Remove(ctx, &pb.RemoveCheckpointRequest{Id: string(id)})
	return checkpointError(err)
}

var differenceKinds = map[pb.DifferenceKind]string{
	pb.DifferenceKind_DIFFERENCE_KIND_ADDED:      checkpoint.Added,
	pb.DifferenceKind_DIFFERENCE_KIND_REMOVED:    checkpoint.Removed,
	pb.DifferenceKind_DIFFERENCE_KIND_MODIFIED:   checkpoint.Modified,
	pb.DifferenceKind_DIFFERENCE_KIND_RETYPED:    checkpoint.Retyped,
	pb.DifferenceKind_DIFFERENCE_KIND_CHANGED:    checkpoint.Changed,
	pb.DifferenceKind_DIFFERENCE_KIND_UNREADABLE: checkpoint.Unreadable,
}

// Diff yields how checkpoint to, or if that is empty what is there now, differs from checkpoint from, as
// [checkpoint.Store.Diff] does. If there is more than the 8 MiB of an answer hold, the last error is [ErrTooLarge].
func (c *Client) Diff(ctx context.Context, from, to checkpoint.ID, opts checkpoint.DiffOptions) iter.Seq2[checkpoint.Difference, error] {
	request := &pb.DiffCheckpointsRequest{From: string(from), To: string(to), Text: opts.Text}
	return func(yield func(checkpoint.Difference, error) bool) {
		d := differences{yield: yield}
		err := eachMessage(receive(ctx, request, c.points.Diff), d.take)
		if err != errLoopLeft {
			err = checkpointError(err)
		}
		endResults(yield, err)
	}
}

// differences gives the results of a comparison to its caller.
type differences struct {
	yield        func(checkpoint.Difference, error) bool
	count, bytes int64
	idle         idleMessages
}

func (d *differences) take(r *pb.DiffCheckpointsResponse) error {
	end, p := r.GetEnd(), r.GetDifference()
	switch {
	case end != nil && end.Count != d.count:
		return protocolError("%d differences, and not the %d of the end", d.count, end.Count)
	case end != nil && end.Truncated:
		return fmt.Errorf("%w: there are more than these %d differences", ErrTooLarge, d.count)
	case end != nil:
		return io.EOF
	case p == nil:
		return d.idle.add()
	}
	d.count++
	d.bytes += int64(len(p.Path) + len(p.Text) + len(p.NoText))
	if d.count > maxDifferences || d.bytes > maxDiffBytes {
		return protocolError("more than %d differences, or %d bytes of them", maxDifferences, maxDiffBytes)
	}
	how, known := differenceKinds[p.How]
	if !known {
		return nil
	}
	if err := firstError(checkTreePath(p.Path), checkWhy(p.NoText)); err != nil {
		return err
	}
	if !d.yield(checkpoint.Difference{Path: string(p.Path), How: how, Dir: p.Dir, Diff: p.Text, NoDiff: p.NoText}, nil) {
		return errLoopLeft
	}
	return nil
}

// Restore makes the workdir what it was, as [checkpoint.Store.Restore] does. Paths may also be absolute ones in the
// workdir. Once it changes files it goes on, also if ctx ends or the connection breaks: Diff tells what became of it.
func (c *Client) Restore(ctx context.Context, id checkpoint.ID, opts checkpoint.RestoreOptions) (checkpoint.Restored, error) {
	r, err := c.points.Restore(ctx, &pb.RestoreCheckpointRequest{Id: string(id), Paths: toBytes(opts.Paths)})
	if err != nil {
		return checkpoint.Restored{}, checkpointError(err)
	}
	result := checkpoint.Restored{Changed: r.Changed, MoreKept: r.MoreKept}
	if result.Before, err = checkpointFromProto(r.Before); err == nil {
		result.Kept, err = leftFromProto(r.Kept)
	}
	if err = firstError(err, checkNumbers("a number of files", r.Changed, r.MoreKept)); err != nil {
		return checkpoint.Restored{}, err
	}
	if len(result.Kept) > 0 || result.MoreKept > 0 {
		err = checkpoint.ErrIncomplete
	}
	return result, err
}

// checkpointError returns the error of a call of the service Checkpoints.
func checkpointError(err error) error {
	if isUnknownCall(err) {
		return fmt.Errorf("%w: the agent keeps no checkpoints: update the agent's image", ErrVersion)
	}
	return wire.FromStatus(err)
}

func checkpointFromProto(p *pb.Checkpoint) (checkpoint.Checkpoint, error) {
	if p == nil {
		return checkpoint.Checkpoint{}, protocolError("no checkpoint")
	}
	c := checkpoint.Checkpoint{ID: checkpoint.ID(p.Id), Name: p.Name, Automatic: p.Automatic, Time: timeFromProto(p.Time), Files: p.Files, Bytes: p.Bytes, Stored: p.Stored}
	return c, firstError(checkPointID(p.Id), checkName(p.Name), checkTime(p.Time), checkNumbers("a number of files", p.Files, p.Bytes, p.Stored))
}

// checkPointID refuses what is no hash.
func checkPointID(id string) error {
	if _, err := checkpoint.ParseID(id); err != nil {
		return protocolError("%v", err)
	}
	return nil
}

// checkName refuses a name that is longer than one may be. It may have any character: who shows it sees to that.
func checkName(name string) error {
	if len(name) > maxText {
		return protocolError("a name of %d bytes", len(name))
	}
	return nil
}

func checkWhy(why string) error {
	if len(why) > maxWhy {
		return protocolError("a reason of %d bytes", len(why))
	}
	return nil
}

// checkTreePath refuses a path that is not in the tree.
func checkTreePath(path []byte) error {
	if len(path) > maxTreePath {
		return protocolError("a path of %d bytes", len(path))
	}
	return firstError(checkPath(path[:min(len(path), maxPath)]), checkEntry(".", true, string(path)))
}

func leftFromProto(list []*pb.LeftPath) (left []checkpoint.LeftOut, err error) {
	for _, p := range list {
		if err := firstError(checkTreePath(p.GetPath()), checkWhy(p.GetWhy())); err != nil {
			return nil, err
		}
		left = append(left, checkpoint.LeftOut{Path: string(p.GetPath()), Why: p.GetWhy()})
	}
	return left, nil
}
