package agent

import (
	"errors"
	"fmt"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

type importStream = grpc.BidiStreamingServer[pb.ImportCheckpointRequest, pb.ImportCheckpointResponse]

func (s *checkpointsService) Import(stream importStream) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	stream = patient[pb.ImportCheckpointRequest, pb.ImportCheckpointResponse]{stream, s.checkpoints.after}
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	start := first.GetStart()
	if start == nil {
		return errFirstMessage("start")
	}
	end, err := s.checkpoints.received.begin(stream.Context())
	if err != nil {
		return err
	}
	defer end()
	text, err := receiveManifest(stream)
	if err != nil {
		return err
	}
	r, err := store.Receive(stream.Context(), checkpoint.ID(start.Id), text, checkpoint.ReceiveOptions{All: start.All, Populates: start.Populate})
	if err != nil {
		return err
	}
	defer r.Close()
	c, err := receiveAll(stream, r, start.All)
	if err != nil {
		return err
	}
	response := &pb.ImportCheckpointEnd{Checkpoint: checkpointToProto(c), Objects: r.Objects, Bytes: r.Bytes}
	if start.Populate {
		done, err := store.Populate(stream.Context(), c.ID)
		s.followProtected()
		if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) { // which is an answer
			return err
		}
		response.Kept, response.MoreKept = leftToProto(done.Kept, done.MoreKept)
	}
	return stream.Send(&pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_End{End: response}})
}

func receiveManifest(stream importStream) (text []byte, err error) {
	for {
		r, err := stream.Recv()
		if err != nil {
			return nil, cut(err)
		}
		m := r.GetManifest()
		if m == nil {
			return nil, errMessage(r.Kind)
		}
		if text = append(text, m.Data...); len(text) > checkpoint.MaxManifest || len(m.Data) == 0 {
			return nil, fmt.Errorf("%w: a manifest of more than %d bytes", checkpoint.ErrTooLarge, checkpoint.MaxManifest)
		}
		if m.Last {
			return text, nil
		}
	}
}

// receiveAll takes a checkpoint.
func receiveAll(stream importStream, r *checkpoint.Receiver, all bool) (checkpoint.Checkpoint, error) {
	for range commitTries {
		if err := receiveObjects(stream, r, all); err != nil {
			return checkpoint.Checkpoint{}, err
		}
		c, done, err := r.Commit(stream.Context())
		if done || err != nil {
			return c, err
		}
		if all {
			break // which cannot be asked for again
		}
	}
	return checkpoint.Checkpoint{}, fmt.Errorf("%w: parts of the checkpoint went meanwhile", wire.ErrUnavailable)
}

// receiveObjects takes what comes, and asks for what is missing, until nothing is.
func receiveObjects(stream importStream, r *checkpoint.Receiver, all bool) error {
	for {
		if err := ask(stream, r.Wants()); err != nil {
			return err
		}
		if r.Complete() && !all {
			return nil
		}
		request, err := stream.Recv()
		if err != nil {
			return cut(err)
		}
		switch kind := request.Kind.(type) {
		case *pb.ImportCheckpointRequest_Done:
			return nil // Commit says whether all is there
		case *pb.ImportCheckpointRequest_Parts:
			parts, err := wire.PartsFromProto(kind.Parts)
			if err == nil {
				err = r.Take(stream.Context(), parts)
			}
			if err != nil {
				return err
			}
		default:
			return errMessage(request.Kind)
		}
	}
}

func ask(stream importStream, objects []checkpoint.Hash) error {
	if len(objects) == 0 {
		return nil
	}
	var b []byte
	for _, h := range objects {
		b = append(b, h[:]...)
	}
	want := &pb.CheckpointObjects{Hashes: b}
	return stream.Send(&pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_Want{Want: want}})
}
