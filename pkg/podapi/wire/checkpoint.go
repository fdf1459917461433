package wire

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// PartsToProto returns parts of a checkpoint's objects as they are on the wire. The data stay the caller's.
func PartsToProto(parts []checkpoint.Part) *pb.CheckpointParts {
	m := &pb.CheckpointParts{Parts: make([]*pb.CheckpointPart, len(parts))}
	for i := range parts {
		p := &parts[i]
		m.Parts[i] = &pb.CheckpointPart{Data: p.Data}
		if p.First {
			m.Parts[i].Object, m.Parts[i].Size, m.Parts[i].Encoding = p.Object[:], p.Size, pb.CheckpointEncoding(p.Encoding)+1
		}
	}
	return m
}

// PartsFromProto returns parts of a checkpoint's objects that have arrived. Parts that are none are EINVAL.
func PartsFromProto(m *pb.CheckpointParts) ([]checkpoint.Part, error) {
	parts := make([]checkpoint.Part, len(m.GetParts()))
	if len(parts) == 0 {
		return nil, fmt.Errorf("a message without parts of objects: %w", syscall.EINVAL)
	}
	for i, p := range m.GetParts() {
		parts[i].Data = p.GetData()
		switch len(p.GetObject()) {
		case 0:
			continue
		case len(checkpoint.Hash{}):
		default:
			return nil, fmt.Errorf("an object whose hash has %d bytes: %w", len(p.GetObject()), syscall.EINVAL)
		}
		if e := p.GetEncoding(); e < pb.CheckpointEncoding_CHECKPOINT_ENCODING_RAW || e > pb.CheckpointEncoding_CHECKPOINT_ENCODING_S2 {
			return nil, fmt.Errorf("an object with the encoding %d: %w", e, errors.ErrUnsupported)
		}
		parts[i].First, parts[i].Size = true, p.GetSize()
		parts[i].Object, parts[i].Encoding = checkpoint.Hash(p.GetObject()), checkpoint.Encoding(p.GetEncoding()-1)
	}
	return parts, nil
}
