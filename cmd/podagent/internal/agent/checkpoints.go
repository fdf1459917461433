package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"google.golang.org/grpc"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// checkpointsService is the service Checkpoints.
type checkpointsService struct {
	pb.UnimplementedCheckpointsServer
	*Agent
}

// open returns the store.
func (s *checkpointsService) open() (*checkpoint.Store, error) {
	return s.checkpoints.store, s.checkpoints.missing
}

func (s *checkpointsService) Create(ctx context.Context, r *pb.CreateCheckpointRequest) (*pb.CreateCheckpointResponse, error) {
	store, err := s.open()
	if err == nil {
		err = checkList("globs", r.Exclude)
	}
	if err != nil {
		return nil, err
	}
	c, err := store.Create(ctx, checkpoint.CreateOptions{Name: r.Name, Automatic: r.Automatic, Exclude: toStrings(r.Exclude)})
	if err != nil {
		return nil, err
	}
	response := &pb.CreateCheckpointResponse{Checkpoint: checkpointToProto(c)}
	response.LeftOut, response.MoreLeftOut = leftToProto(c.LeftOut, c.MoreLeftOut)
	response.Moving, response.MoreMoving = pathsToProto(c.Moving, c.MoreMoving)
	return response, nil
}

func (s *checkpointsService) List(_ *pb.ListCheckpointsRequest, stream grpc.ServerStreamingServer[pb.ListCheckpointsResponse]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	list, err := store.List(stream.Context())
	if err != nil {
		return err
	}
	for _, c := range list {
		if err := stream.Send(&pb.ListCheckpointsResponse{Kind: &pb.ListCheckpointsResponse_Checkpoint{Checkpoint: checkpointToProto(c)}}); err != nil {
			return err
		}
	}
	return stream.Send(&pb.ListCheckpointsResponse{Kind: &pb.ListCheckpointsResponse_End{End: &pb.ListCheckpointsEnd{Count: int64(len(list))}}})
}

func (s *checkpointsService) Remove(ctx context.Context, r *pb.RemoveCheckpointRequest) (*pb.RemoveCheckpointResponse, error) {
	store, err := s.open()
	if err != nil {
		return nil, err
	}
	return &pb.RemoveCheckpointResponse{}, store.Remove(ctx, checkpoint.ID(r.Id))
}

// Diff compares first, and then answers: the other calls do not wait for a caller who takes the answer slowly.
func (s *checkpointsService) Diff(r *pb.DiffCheckpointsRequest, stream grpc.ServerStreamingServer[pb.DiffCheckpointsResponse]) error {
	store, err := s.open()
	if err != nil {
		return err
	}
	var list []*pb.Difference
	end, size := &pb.DiffCheckpointsEnd{}, 0
	for d, err := range store.Diff(stream.Context(), checkpoint.ID(r.From), checkpoint.ID(r.To), checkpoint.DiffOptions{Text: r.Text}) {
		if err != nil {
			return err
		}
		p := differenceToProto(d)
		if size += len(p.Path) + len(p.Text) + len(p.NoText) + attrBytes; size > maxDiffAnswer {
			end.Truncated = true
			break
		}
		list = append(list, p)
	}
	for _, d := range list {
		if err := stream.Send(&pb.DiffCheckpointsResponse{Kind: &pb.DiffCheckpointsResponse_Difference{Difference: d}}); err != nil {
			return err
		}
	}
	end.Count = int64(len(list))
	return stream.Send(&pb.DiffCheckpointsResponse{Kind: &pb.DiffCheckpointsResponse_End{End: end}})
}

func (s *checkpointsService) Restore(ctx context.Context, r *pb.RestoreCheckpointRequest) (*pb.RestoreCheckpointResponse, error) {
	store, err := s.open()
	if err != nil {
		return nil, err
	}
	paths, err := s.checkpoints.relative(r.Paths)
	if err != nil {
		return nil, err
	}
	done, err := store.Restore(ctx, checkpoint.ID(r.Id), checkpoint.RestoreOptions{Paths: paths})
	s.followProtected()
	if err != nil && !errors.Is(err, checkpoint.ErrIncomplete) { // which is an answer
		return nil, err
	}
	response := &pb.RestoreCheckpointResponse{Before: checkpointToProto(done.Before), Changed: done.Changed}
	response.Kept, response.MoreKept = leftToProto(done.Kept, done.MoreKept)
	return response, nil
}

// relative returns the paths in the tree from its root.
func (c *checkpoints) relative(list [][]byte) (paths []string, err error) {
	if err := checkList("paths", list); err != nil {
		return nil, err
	}
	for _, p := range list {
		path := string(p)
		if filepath.IsAbs(path) {
			if path, err = filepath.Rel(c.root, path); err != nil {
				return nil, err
			}
		}
		paths = append(paths, path)
	}
	return paths, nil
}

// checkList refuses a list that is too long, or has an empty text or one with a NUL byte.
func checkList(what string, list [][]byte) error {
	size := 0
	for _, text := range list {
		if len(text) == 0 || strings.IndexByte(string(text), 0) >= 0 {
			return fmt.Errorf("one of the %s is empty, or has a NUL byte: %w", what, syscall.EINVAL)
		}
		size += len(text)
	}
	if len(list) > maxListed || size > maxListedBytes {
		return fmt.Errorf("%d %s with %d bytes, and there may be %d with %d: %w", len(list), what, size, maxListed, maxListedBytes, syscall.EINVAL)
	}
	return nil
}
