package podapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/internal/delay"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// CopyOptions say what a sandbox does with a checkpoint that it gets.
type CopyOptions struct {
	// Populate makes the workdir, which must be empty, what it was in the checkpoint, with protected paths. For one that
	// was populated before, whatever has changed since, the error is EEXIST; for another one that is not empty, ENOTEMPTY.
	Populate bool
}

// CopiedCheckpoint says what came of a copy.
type CopiedCheckpoint struct {
	checkpoint.Checkpoint
	// Objects and Sent count what the sandbox lacked of it: files and directories, and their bytes, compressed.
	Objects, Sent int64
	// Kept are paths that are not as in the checkpoint after Populate, and why. MoreKept counts those beyond what
	// an answer holds. The error is [checkpoint.ErrIncomplete] then.
	Kept     []checkpoint.LeftOut
	MoreKept int64
}

// CopyCheckpoint copies a checkpoint to another sandbox, with what that lacks of it. The bytes pass through this process,
// which holds some messages of them. The other agent compares all with its hash, beginning with the id; with Populate, small
// files when it makes them. What is damaged is fsops.ErrChecksum, and the files that were made are removed. A copy whose
// connection is cut goes on with another one, up to three times; but not if it was cut while the other sandbox changed its
// workdir. A sandbox that never answers holds the copy until ctx ends. Agents that cannot do it give [ErrVersion].
func (c *Client) CopyCheckpoint(ctx context.Context, id checkpoint.ID, to *Client, opts CopyOptions) (CopiedCheckpoint, error) {
	var before error
	for try := 1; ; try++ {
		r, err := c.copyOnce(ctx, id, to, opts)
		switch {
		case err == nil:
			return copiedFromProto(id, r)
		case before != nil && opts.Populate && (errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)):
			return CopiedCheckpoint{}, before
		case try == copyTries || ctx.Err() != nil || c.closed.Load() || to.closed.Load() || !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrCut):
			return CopiedCheckpoint{}, err
		}
		before = err
		delay.For(ctx, resumeDelay(try))
	}
}

func copiedFromProto(id checkpoint.ID, r *pb.ImportCheckpointEnd) (copied CopiedCheckpoint, err error) {
	copied = CopiedCheckpoint{Objects: r.Objects, Sent: r.Bytes, MoreKept: r.MoreKept}
	if copied.Checkpoint, err = checkpointFromProto(r.Checkpoint); err == nil {
		copied.Kept, err = leftFromProto(r.Kept)
	}
	if err == nil && copied.ID != id {
		err = protocolError("checkpoint %s, and not %s", copied.ID, id)
	}
	if err = firstError(err, checkNumbers("a number of objects", r.Objects, r.Bytes, r.MoreKept)); err != nil {
		return CopiedCheckpoint{}, err
	}
	if len(copied.Kept) > 0 || copied.MoreKept > 0 {
		err = checkpoint.ErrIncomplete
	}
	return copied, err
}

// A relay carries a checkpoint from one agent to another.
type relay struct {
	from grpc.BidiStreamingClient[pb.ExportCheckpointRequest, pb.ExportCheckpointResponse]
	to   grpc.BidiStreamingClient[pb.ImportCheckpointRequest, pb.ImportCheckpointResponse]
	// owed counts what the source has been asked for and has not sent: the manifest, and objects.
	owed atomic.Int64
	// rest is how many bytes the source owes of the object that it has begun.
	rest int64
}

// errSourceGone says that the source has ended, for a reason that carry has got.
var errSourceGone = errors.New("the source of the checkpoint is gone")

func (c *Client) copyOnce(ctx context.Context, id checkpoint.ID, to *Client, opts CopyOptions) (*pb.ImportCheckpointEnd, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var r relay
	r.owed.Store(1)
	var err error
	if r.from, err = c.points.Export(ctx); err != nil {
		return nil, transferError(err)
	}
	if r.to, err = to.points.Import(ctx); err != nil {
		return nil, transferError(err)
	}
	first := &pb.ExportCheckpointRequest{Kind: &pb.ExportCheckpointRequest_Start{Start: &pb.ExportCheckpointStart{Id: string(id)}}}
	second := &pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Start{Start: &pb.ImportCheckpointStart{Id: string(id), Populate: opts.Populate}}}
	_, _ = r.from.Send(first), r.to.Send(second) // their errors are the next Recv's
	down := make(chan error, 1)
	go func() {
		err := r.carry()
		// A source that owes nothing may end: the other agent may be busy with the files for long.
		if err != nil && (r.owed.Load() != 0 || r.rest != 0 || errors.Is(err, ErrProtocol)) {
			cancel()
		}
		down <- err
	}()
	end, err := r.ask()
	if err == nil {
		return end, nil
	}
	cancel()
	// The end of one stream ends the other one: the reason is the error that came first.
	if sourceErr := <-down; sourceErr != nil && (isCancelled(err) || errors.Is(err, errSourceGone)) {
		if err = sourceErr; errors.Is(wire.FromStatus(err), fs.ErrExist) { // which only the other one can say
			err = protocolError("the source of the checkpoint says: %.200q", err)
		}
	}
	return nil, transferError(err)
}

func isCancelled(err error) bool { return errors.Is(wire.FromStatus(err), context.Canceled) }

// pay counts an item that the source sends. It may send nothing that nobody has asked for: the other agent would go on
// waiting for what the source no longer owes.
func (r *relay) pay() error {
	if r.owed.Add(-1) < 0 {
		return protocolError("a part of a checkpoint that nobody asked for")
	}
	return nil
}

// payParts is pay for objects, which begin with their sizes.
func (r *relay) payParts(parts []*pb.CheckpointPart) error {
	for _, p := range parts {
		if len(p.GetObject()) > 0 {
			if err := r.pay(); err != nil {
				return err
			}
			r.rest = p.GetSize()
		}
		r.rest -= int64(len(p.GetData()))
	}
	return nil
}

// carry passes on what the source sends, until its end.
func (r *relay) carry() error {
	var idle idleMessages
	for described := false; ; {
		m, err := r.from.Recv()
		if err != nil {
			return cutError(err)
		}
		request := &pb.ImportCheckpointRequest{}
		switch kind := m.Kind.(type) {
		case *pb.ExportCheckpointResponse_Manifest:
			request.Kind = &pb.ImportCheckpointRequest_Manifest{Manifest: kind.Manifest}
			if described {
				return protocolError("a second manifest")
			}
			if described = kind.Manifest.GetLast(); described {
				err = r.pay()
			}
		case *pb.ExportCheckpointResponse_Parts:
			request.Kind = &pb.ImportCheckpointRequest_Parts{Parts: kind.Parts}
			err = r.payParts(kind.Parts.GetParts())
		case *pb.ExportCheckpointResponse_End:
			return protocolError("the end, which nobody asked for")
		default:
			if err := idle.add(); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := r.to.Send(request); err != nil {
			return nil // ask gets the reason
		}
	}
}

// ask passes on what the other agent asks for, until its end.
func (r *relay) ask() (*pb.ImportCheckpointEnd, error) {
	var idle idleMessages
	for {
		m, err := r.to.Recv()
		if err != nil {
			return nil, cutError(err)
		}
		switch kind := m.Kind.(type) {
		case *pb.ImportCheckpointResponse_Want:
			r.owed.Add(int64(len(kind.Want.GetHashes()) / len(checkpoint.Hash{})))
			if r.from.Send(&pb.ExportCheckpointRequest{Kind: &pb.ExportCheckpointRequest_Want{Want: kind.Want}}) != nil {
				return nil, errSourceGone
			}
		case *pb.ImportCheckpointResponse_End:
			return kind.End, nil
		default:
			if err := idle.add(); err != nil {
				return nil, err
			}
		}
	}
}

// transferError returns the error of a call that sends or receives a checkpoint.
func transferError(err error) error {
	if isUnknownCall(err) {
		return fmt.Errorf("%w: the agent cannot send and receive checkpoints: update the agent's image", ErrVersion)
	}
	return wire.FromStatus(err)
}

// ExportCheckpoint writes a checkpoint to w, as one file that [Client.ImportCheckpoint] reads. Without an error the file
// is complete, and what the id says: a checkpoint that is damaged is fsops.ErrChecksum. An agent can have no more written
// than the files and directories that the checkpoint names; a caller who wants less has w return an error.
func (c *Client) ExportCheckpoint(ctx context.Context, id checkpoint.ID, w io.Writer, opts checkpoint.FileOptions) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.points.Export(ctx)
	if err != nil {
		return transferError(err)
	}
	_ = stream.Send(&pb.ExportCheckpointRequest{Kind: &pb.ExportCheckpointRequest_Start{Start: &pb.ExportCheckpointStart{Id: string(id), All: true}}})
	return fileError(transferError(writeExport(stream, id, w, opts)))
}

func writeExport(stream grpc.BidiStreamingClient[pb.ExportCheckpointRequest, pb.ExportCheckpointResponse], id checkpoint.ID, w io.Writer, opts checkpoint.FileOptions) error {
	var manifest []byte
	var file *checkpoint.FileWriter
	var idle idleMessages
	for {
		m, err := stream.Recv()
		if err != nil {
			return cutError(err)
		}
		switch kind := m.Kind.(type) {
		case *pb.ExportCheckpointResponse_Manifest:
			if manifest = append(manifest, kind.Manifest.GetData()...); len(manifest) > checkpoint.MaxManifest || file != nil {
				err = protocolError("a manifest of more than %d bytes", checkpoint.MaxManifest)
			} else if kind.Manifest.GetLast() {
				file, err = checkpoint.NewFileWriter(w, id, manifest, opts)
			} else {
				err = idle.add()
			}
		case *pb.ExportCheckpointResponse_Parts:
			if file == nil {
				return protocolError("objects before the manifest")
			}
			var parts []checkpoint.Part
			if parts, err = wire.PartsFromProto(kind.Parts); err != nil {
				return protocolError("%v", err)
			}
			err = file.Write(parts)
		case *pb.ExportCheckpointResponse_End:
			if file == nil {
				return protocolError("no manifest")
			}
			return file.Close()
		default:
			err = idle.add()
		}
		if err != nil {
			return err
		}
	}
}

// ImportCheckpoint reads a checkpoint from a file that [Client.ExportCheckpoint] wrote. A file that was damaged is
// [fsops.ErrChecksum], and one that is none [fs.ErrInvalid].
func (c *Client) ImportCheckpoint(ctx context.Context, r io.Reader, opts CopyOptions) (CopiedCheckpoint, error) {
	file, err := checkpoint.NewFileReader(r)
	if err != nil {
		return CopiedCheckpoint{}, fileError(err)
	}
	defer file.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.points.Import(ctx)
	if err != nil {
		return CopiedCheckpoint{}, transferError(err)
	}
	readErr := sendFile(stream, file, opts)
	if readErr != nil {
		cancel()
	}
	var idle idleMessages
	for err == nil {
		var m *pb.ImportCheckpointResponse
		if m, err = stream.Recv(); err == nil {
			if end := m.GetEnd(); end != nil && readErr == nil {
				return copiedFromProto(file.ID, end)
			}
			err = idle.add()
		}
	}
	if readErr != nil && isCancelled(err) {
		return CopiedCheckpoint{}, fileError(readErr)
	}
	return CopiedCheckpoint{}, transferError(cutError(err))
}

// fileError gives an error of a file the class that the agent would give it.
func fileError(err error) error {
	if errors.Is(err, checkpoint.ErrCorrupt) {
		return fmt.Errorf("%w: %w", fsops.ErrChecksum, err)
	}
	return err
}

// sendFile sends what is in a file. An error is the file's; if the call has ended, it sends no more.
func sendFile(stream grpc.BidiStreamingClient[pb.ImportCheckpointRequest, pb.ImportCheckpointResponse], file *checkpoint.FileReader, opts CopyOptions) error {
	start := &pb.ImportCheckpointStart{Id: string(file.ID), All: true, Populate: opts.Populate}
	send := func(m *pb.ImportCheckpointRequest) bool { return stream.Send(m) == nil }
	if !send(&pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Start{Start: start}}) {
		return nil
	}
	for text := file.Manifest; ; {
		piece := text[:min(len(text), checkpoint.PartSize)]
		text = text[len(piece):]
		m := &pb.CheckpointManifest{Data: piece, Last: len(text) == 0}
		if !send(&pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Manifest{Manifest: m}}) {
			return nil
		}
		if m.Last {
			break
		}
	}
	for {
		parts, err := file.Next()
		if err == io.EOF {
			send(&pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Done{Done: &pb.CheckpointDone{}}})
			return nil
		}
		if err != nil {
			return err
		}
		if !send(&pb.ImportCheckpointRequest{Kind: &pb.ImportCheckpointRequest_Parts{Parts: wire.PartsToProto(parts)}}) {
			return nil
		}
	}
}
