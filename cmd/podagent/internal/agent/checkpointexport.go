package agent

import (
	"fmt"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

type exportStream = grpc.BidiStreamingServer[pb.ExportCheckpointRequest, pb.ExportCheckpointResponse]

func (s *checkpointsService) Export(stream exportStream) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	stream = patient[pb.ExportCheckpointRequest, pb.ExportCheckpointResponse]{stream, s.checkpoints.after}
	first, err := stream.Recv()
	if err != nil {
		return cut(err)
	}
	start := first.GetStart()
	if start == nil {
		return errFirstMessage("start")
	}
	end, err := s.checkpoints.sent.begin(stream.Context())
	if err != nil {
		return err
	}
	defer end()
	x, err := store.Send(stream.Context(), checkpoint.ID(start.Id))
	if err != nil {
		return err
	}
	defer x.Close()
	if err := sendManifest(stream, x.Manifest()); err != nil {
		return err
	}
	if start.All {
		err = x.All(stream.Context(), sendParts(stream))
	} else {
		err = sendWanted(stream, x)
	}
	if err != nil {
		return err
	}
	return stream.Send(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_End{End: &pb.CheckpointDone{}}})
}

func sendManifest(stream exportStream, text []byte) error {
	for last := false; !last; {
		piece := text[:min(len(text), checkpoint.PartSize)]
		text = text[len(piece):]
		last = len(text) == 0
		m := &pb.CheckpointManifest{Data: piece, Last: last}
		if err := stream.Send(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Manifest{Manifest: m}}); err != nil {
			return err
		}
	}
	return nil
}

// sendWanted sends what the caller asks for, until it is done.
func sendWanted(stream exportStream, x *checkpoint.Sender) error {
	for {
		r, err := stream.Recv()
		if err != nil {
			return cut(err)
		}
		switch kind := r.Kind.(type) {
		case *pb.ExportCheckpointRequest_Done:
			return nil
		case *pb.ExportCheckpointRequest_Want:
			objects, err := hashes(kind.Want.GetHashes())
			if err == nil {
				err = x.Objects(stream.Context(), objects, sendParts(stream))
			}
			if err != nil {
				return err
			}
		default:
			return errMessage(r.Kind)
		}
	}
}

// hashes returns the hashes of objects that a caller names.
func hashes(b []byte) ([]checkpoint.Hash, error) {
	const size = len(checkpoint.Hash{})
	if len(b)%size != 0 || len(b) > checkpoint.MaxWant*size {
		return nil, fmt.Errorf("%d bytes of hashes: %w", len(b), syscall.EINVAL)
	}
	list := make([]checkpoint.Hash, 0, len(b)/size)
	for ; len(b) > 0; b = b[size:] {
		list = append(list, checkpoint.Hash(b))
	}
	return list, nil
}

func sendParts(stream exportStream) func([]checkpoint.Part) error {
	return func(parts []checkpoint.Part) error {
		return stream.Send(&pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Parts{Parts: wire.PartsToProto(parts)}})
	}
}
