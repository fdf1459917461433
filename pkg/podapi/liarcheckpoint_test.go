package podapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// The checkpoint that agents lie about has one file, with three bytes.
const liarContent = "abc"

var (
	// The file has its kind, its name, modes, owners, time and flags, its size and its hash.
	liarDir      = "podagent tree 2\n" + "f\x01x\xa4\x03\x00\x00\x00\x00\x03" + hashOf(liarContent)
	liarManifest = fmt.Sprintf(`{"format":1,"tree":%q,"time":"2026-01-01T00:00:00Z","began":"2026-01-01T00:00:00Z","files":1,"bytes":3}`,
		base64.StdEncoding.EncodeToString([]byte(hashOf(liarDir))))
	liarCheckpoint = checkpoint.ID(hex.EncodeToString([]byte(hashOf(liarManifest))))

	exportEnd      = &pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_End{End: &pb.CheckpointDone{}}}
	exportManifest = manifestOf(liarManifest)
	exportDir      = object(liarDir)
	exportFile     = object(liarContent)
)

func hashOf(text string) string {
	h := sha256.Sum256([]byte(text))
	return string(h[:])
}

func manifestOf(text string) *pb.ExportCheckpointResponse {
	return &pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Manifest{Manifest: &pb.CheckpointManifest{Data: []byte(text), Last: true}}}
}

// object is an object as it is sent, with what lies change in it.
func object(text string, lies ...func(*pb.CheckpointPart)) *pb.ExportCheckpointResponse {
	part := &pb.CheckpointPart{Object: []byte(hashOf(text)), Size: int64(len(text)), Encoding: pb.CheckpointEncoding_CHECKPOINT_ENCODING_RAW, Data: []byte(text)}
	for _, lie := range lies {
		lie(part)
	}
	return partsOf(part)
}

func partsOf(parts ...*pb.CheckpointPart) *pb.ExportCheckpointResponse {
	return &pb.ExportCheckpointResponse{Kind: &pb.ExportCheckpointResponse_Parts{Parts: &pb.CheckpointParts{Parts: parts}}}
}

func imported(end *pb.ImportCheckpointEnd) *pb.ImportCheckpointResponse {
	return &pb.ImportCheckpointResponse{Kind: &pb.ImportCheckpointResponse_End{End: end}}
}
