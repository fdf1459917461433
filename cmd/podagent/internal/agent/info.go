package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podagent/podagent/cmd/podagent/internal/proc"
	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

// agentService is the service Agent.
type agentService struct {
	pb.UnimplementedAgentServer
	*Agent
}

func (s *agentService) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	return &pb.InfoResponse{
		Version:       s.config.Version,
		ProtocolMajor: podapi.ProtocolMajor,
		ProtocolMinor: podapi.ProtocolMinor,
		BootId:        s.bootID,
		PodUid:        s.config.PodUID,
		Uid:           uint32(os.Getuid()),
		Gid:           uint32(os.Getgid()),
		Workdir:       []byte(s.fs.Workdir()),
		Idle:          int64(s.idle()),
		Os:            runtime.GOOS,
		Arch:          runtime.GOARCH,
		Limits: &pb.Limits{
			MessageBytes: podapi.MaxMessage,
			ChunkBytes:   podapi.ChunkSize,
			EditBytes:    fsops.MaxEditSize,
			JournalBytes: proc.JournalSize,
		},
	}, nil
}

// idle returns how long ago the last call or process ended; 0 if one is under
// way.
func (a *Agent) idle() time.Duration {
	last, idle := a.activity.idleSince()
	if !idle || a.processes.Running() > 0 {
		return 0
	}
	if t := a.processes.LastActive(); t.After(last) {
		last = t
	}
	return time.Since(last)
}

func (s *agentService) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if len(r.ProtectedPaths) > 0 {
		return nil, fmt.Errorf("protected paths: %w", errors.ErrUnsupported)
	}
	env := toStrings(r.Env)
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	workdir := string(r.Workdir)
	if workdir != "" && !filepath.IsAbs(workdir) {
		return nil, &fs.PathError{Op: "configure", Path: workdir, Err: fmt.Errorf("workdir is not absolute: %w", syscall.EINVAL)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = env
	if workdir != "" {
		s.fs.SetWorkdir(workdir)
	}
	return &pb.ConfigureResponse{}, nil
}

// environment returns what a process gets: the agent's own environment, what
// Configure set, and what the request adds; or only the last.
func (a *Agent) environment(add []string, clear bool) ([]string, error) {
	if err := checkEnv(add); err != nil {
		return nil, err
	}
	if clear {
		return mergeEnv(add), nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return mergeEnv(a.config.Env, a.env, add), nil
}

// checkEnv refuses what is not NAME=VALUE.
func checkEnv(env []string) error {
	for _, v := range env {
		if i := strings.IndexByte(v, '='); i <= 0 {
			return fmt.Errorf("environment %q is not NAME=VALUE: %w", v, syscall.EINVAL)
		}
	}
	return nil
}

// mergeEnv joins environments; a later value of a name wins.
func mergeEnv(envs ...[]string) []string {
	last := map[string]string{}
	for _, env := range envs {
		for _, v := range env {
			name, _, _ := strings.Cut(v, "=")
			last[name] = v
		}
	}
	merged := make([]string, 0, len(last))
	for _, v := range last {
		merged = append(merged, v)
	}
	slices.Sort(merged)
	return merged
}

func toStrings(values [][]byte) []string {
	out := make([]string, len(values))
	for i, b := range values {
		out[i] = string(b)
	}
	return out
}
