package podapi

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Checkpoint describes a state of the workdir's tree that the sandbox keeps.
type Checkpoint struct {
	// ID has 64 hexadecimal digits: the SHA-256 of what the checkpoint consists of. Commands in the sandbox may be able
	// to change that, and then this ID is damaged (fsops.ErrChecksum). So keep the ID outside of the sandbox.
	ID    string
	Name  string // for people; may be empty
	Time  time.Time
	Files int64 // everything but directories
	Bytes int64 // the sizes of the regular files
	// Stored is how many bytes were written for it: what was there before is shared.
	Stored int64
}

// LeftPath is a path, from the workdir, that was left as it is, and why.
type LeftPath struct{ Path, Why string }

// CheckpointOptions say what [Client.Checkpoint] makes.
type CheckpointOptions struct {
	Name string // up to 200 bytes of UTF-8
	// Exclude are globs of files to leave out, as in [fsops.ArchiveOptions]. [Client.Restore] leaves these alone.
	Exclude []string
}

// CheckpointResult is a new checkpoint, and what it does not have as it was.
type CheckpointResult struct {
	Checkpoint
	// LeftOut are files that it lacks, such as sockets and what cannot be read. MoreLeftOut counts those beyond.
	LeftOut     []LeftPath
	MoreLeftOut int64
	// Moving are files that changed whenever they were read. MoreMoving counts those beyond.
	Moving     []string
	MoreMoving int64
}

// Checkpoint keeps what is in the workdir now, whoever has written it. Commands may run meanwhile. The error where the
// sandbox has no place for checkpoints is [errors.ErrUnsupported], of an agent that is too old [ErrVersion], and for
// want of room syscall.ENOSPC.
func (c *Client) Checkpoint(ctx context.Context, opts CheckpointOptions) (CheckpointResult, error) {
	r, err := c.points.Create(ctx, &pb.CreateCheckpointRequest{Name: opts.Name, Exclude: toBytes(opts.Exclude)})
	if err != nil {
		return CheckpointResult{}, checkpointError(err)
	}
	var result CheckpointResult
	if result.Checkpoint, err = checkpointFromProto(r.Checkpoint); err == nil {
		result.LeftOut, err = leftFromProto(r.LeftOut)
	}
	for _, path := range r.Moving {
		err = firstError(err, checkTreePath(path))
		result.Moving = append(result.Moving, string(path))
	}
	result.MoreLeftOut, result.MoreMoving = r.MoreLeftOut, r.MoreMoving
	err = firstError(err, checkNumbers("a number of files", r.MoreLeftOut, r.MoreMoving))
	if err != nil {
		return CheckpointResult{}, err
	}
	return result, nil
}

// Checkpoints lists the checkpoints, the oldest first.
func (c *Client) Checkpoints(ctx context.Context) ([]Checkpoint, error) {
	var list []Checkpoint
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
func (c *Client) RemoveCheckpoint(ctx context.Context, id string) error {
	_, err := c.points.Remove(ctx, &pb.RemoveCheckpointRequest{Id: id})
	return checkpointError(err)
}

// The ways in which a path differs between two states. Later agents may add others.
const (
	PathAdded    = "added"
	PathRemoved  = "removed"
	PathModified = "modified" // its content, or what a link names
	PathRetyped  = "retyped"  // such as a directory in the place of a file
	PathChanged  = "changed"  // its mode, owner or time
)

var differenceKinds = map[pb.DifferenceKind]string{
	pb.DifferenceKind_DIFFERENCE_KIND_ADDED:    PathAdded,
	pb.DifferenceKind_DIFFERENCE_KIND_REMOVED:  PathRemoved,
	pb.DifferenceKind_DIFFERENCE_KIND_MODIFIED: PathModified,
	pb.DifferenceKind_DIFFERENCE_KIND_RETYPED:  PathRetyped,
	pb.DifferenceKind_DIFFERENCE_KIND_CHANGED:  PathChanged,
}

// Difference is a path, from the workdir, that differs between two states.
type Difference struct {
	Path string
	How  string // PathAdded and so on
	Dir  bool   // it is a directory, after the change if it is there then
	// Diff is a unified diff if one was asked for and both states are text of up to 256 KiB; NoDiff says why there
	// is none of a file whose content differs.
	Diff   []byte
	NoDiff string
}

// DiffOptions say what [Client.Diff] tells.
type DiffOptions struct {
	Text bool // with unified diffs
	// Truncated, if not nil, is set at the end: whether there are more differences than the 8 MiB of an answer hold.
	Truncated *bool
}

// Diff yields how checkpoint to differs from checkpoint from, or, if to is empty, how what is there now does, but for
// what from excluded. Directories come before what is in them.
func (c *Client) Diff(ctx context.Context, from, to string, opts DiffOptions) iter.Seq2[Difference, error] {
	request := &pb.DiffCheckpointsRequest{From: from, To: to, Text: opts.Text}
	return func(yield func(Difference, error) bool) {
		d := differences{opts: &opts, yield: yield}
		err := eachMessage(receive(ctx, request, c.points.Diff), d.take)
		if err != errLoopLeft {
			err = checkpointError(err)
		}
		endResults(yield, err)
	}
}

// differences gives the results of a comparison to its caller.
type differences struct {
	opts         *DiffOptions
	yield        func(Difference, error) bool
	count, bytes int64
	idle         idleMessages
}

func (d *differences) take(r *pb.DiffCheckpointsResponse) error {
	end, p := r.GetEnd(), r.GetDifference()
	switch {
	case end != nil && end.Count != d.count:
		return protocolError("%d differences, and not the %d of the end", d.count, end.Count)
	case end != nil:
		if d.opts.Truncated != nil {
			*d.opts.Truncated = end.Truncated
		}
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
	if !d.yield(Difference{Path: string(p.Path), How: how, Dir: p.Dir, Diff: p.Text, NoDiff: p.NoText}, nil) {
		return errLoopLeft
	}
	return nil
}

// RestoreResult says what [Client.Restore] has done.
type RestoreResult struct {
	Before  Checkpoint // what was there before
	Changed int64      // files, directories and links that were made, replaced, changed or removed
	// Kept are paths that are not as in the checkpoint. MoreKept counts those beyond.
	Kept     []LeftPath
	MoreKept int64
}

// Restore makes the workdir what it was in a checkpoint, or, with paths, these and all that is below them. Paths are
// relative to the workdir, or absolute ones in it, without links on the way. It makes a checkpoint of what is there first. It
// removes only what is newer than the checkpoint; protected paths, what the checkpoint lacks, and what changes meanwhile
// stay, which RestoreResult.Kept tells and is no error. If something of the checkpoint is damaged, the error is
// fsops.ErrChecksum, and nothing has changed. Once it changes files it goes on, also if ctx ends or the connection
// breaks: then a comparison with the checkpoint tells what became of it.
func (c *Client) Restore(ctx context.Context, id string, paths ...string) (RestoreResult, error) {
	r, err := c.points.Restore(ctx, &pb.RestoreCheckpointRequest{Id: id, Paths: toBytes(paths)})
	if err != nil {
		return RestoreResult{}, checkpointError(err)
	}
	result := RestoreResult{Changed: r.Changed, MoreKept: r.MoreKept}
	if result.Before, err = checkpointFromProto(r.Before); err == nil {
		result.Kept, err = leftFromProto(r.Kept)
	}
	if err = firstError(err, checkNumbers("a number of files", r.Changed, r.MoreKept)); err != nil {
		return RestoreResult{}, err
	}
	return result, nil
}

// checkpointError returns the error of a call of the service Checkpoints.
func checkpointError(err error) error {
	if isUnknownCall(err) {
		return fmt.Errorf("%w: the agent keeps no checkpoints: update the agent's image", ErrVersion)
	}
	return wire.FromStatus(err)
}

func checkpointFromProto(p *pb.Checkpoint) (Checkpoint, error) {
	if p == nil {
		return Checkpoint{}, protocolError("no checkpoint")
	}
	c := Checkpoint{ID: p.Id, Name: p.Name, Time: timeFromProto(p.Time), Files: p.Files, Bytes: p.Bytes, Stored: p.Stored}
	return c, firstError(checkPointID(p.Id), checkName(p.Name), checkTime(p.Time), checkNumbers("a number of files", p.Files, p.Bytes, p.Stored))
}

// checkPointID refuses what is no hash.
func checkPointID(id string) error {
	if len(id) != 64 || strings.Trim(id, "0123456789abcdef") != "" {
		return protocolError("the id %.80q of a checkpoint", id)
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

func leftFromProto(list []*pb.LeftPath) (left []LeftPath, err error) {
	for _, p := range list {
		if err := firstError(checkTreePath(p.GetPath()), checkWhy(p.GetWhy())); err != nil {
			return nil, err
		}
		left = append(left, LeftPath{Path: string(p.GetPath()), Why: p.GetWhy()})
	}
	return left, nil
}
