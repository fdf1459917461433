package agent

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/podagent/podagent/cmd/podagent/internal/checkout"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// gitService is the service Git.
type gitService struct {
	pb.UnimplementedGitServer
	*Agent
}

// Checkout checks out in this process, which nobody in the sandbox can look into, so that
// the password passes through no other.
func (s *gitService) Checkout(ctx context.Context, r *pb.CheckoutRequest) (*pb.CheckoutResponse, error) {
	result, err := s.checkout(ctx, r)
	if err != nil {
		return nil, &fs.PathError{Op: "checkout", Path: string(r.Dir), Err: err}
	}
	return &pb.CheckoutResponse{
		Commit: result.Commit, Ref: []byte(result.Ref), Changed: result.Changed,
		Kept: strings.ToValidUTF8(result.Kept, "\uFFFD"),
	}, nil
}

func (s *gitService) checkout(ctx context.Context, r *pb.CheckoutRequest) (checkout.Result, error) {
	dir := string(r.Dir)
	if dir == "" {
		return checkout.Result{}, syscall.EINVAL
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(s.fs.Workdir(), dir)
	}
	env, err := s.environment(nil, false, false)
	if err != nil {
		return checkout.Result{}, err
	}
	return checkout.Run(ctx, checkout.Options{
		Dir: dir, URL: string(r.Url), Ref: string(r.Ref),
		Username: string(r.Username), Password: string(r.Password),
		Env: env, Processes: s.processes, Relays: &s.wayOut.relays,
	})
}
