package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/podapi/isolation"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// agentService is the service Agent.
type agentService struct {
	pb.UnimplementedAgentServer
	*Agent
}

func (s *agentService) Info(context.Context, *pb.InfoRequest) (*pb.InfoResponse, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return &pb.InfoResponse{
		Version:       s.config.Version,
		ProtocolMajor: wire.ProtocolMajor,
		ProtocolMinor: wire.ProtocolMinor,
		BootId:        s.bootID,
		PodUid:        s.config.PodUID,
		Uid:           uint32(os.Getuid()),
		Gid:           uint32(os.Getgid()),
		Workdir:       []byte(s.fs.Workdir()),
		Idle:          int64(s.idle()),
		Capabilities:  s.capabilities(),
		Os:            runtime.GOOS,
		Arch:          runtime.GOARCH,
		Executable:    []byte(executable),
		Protected:     s.protected(),
		IdleTimeout:   int64(s.life.idleLimit().after),
		Expires:       s.expires(),
		Confinement:   s.confined.Names(),
		Keychain:      s.keys.present(),
		Egress:        s.wayOut.info(),
		Isolation:     isolationToProto(s.config.Isolation),
		Limits: &pb.Limits{
			MessageBytes: wire.MaxMessage,
			ChunkBytes:   wire.ChunkSize,
			EditBytes:    fsops.MaxEditSize,
			JournalBytes: s.processes.JournalSize(),

			StdinWindowBytes: wire.StdinWindow,
		},
	}, nil
}

// capabilities are what the agent offers beyond the first version of the contract.
func (a *Agent) capabilities() []string {
	list := []string{"terminal", "protected-paths", "lifetime", "ports", "git", "strays", "keychain", "assignment", "sooner", "stats", "egress", "port-list"}
	if a.checkpoints.store != nil {
		list = append(list, "checkpoints", "checkpoint-transfer")
	}
	return list
}

func isolationToProto(i isolation.Info) *pb.IsolationInfo {
	return &pb.IsolationInfo{Level: string(i.Level), Missing: i.Missing, Limiter: string(i.Limiter), NoControlGroup: i.NoControlGroup}
}

// expires returns when the agent ends by itself, as in the contract.
func (a *Agent) expires() int64 {
	if t, _ := a.life.get(); !t.IsZero() {
		return t.UnixNano()
	}
	return 0
}

// idle returns the time since the last call or process ended, or a connection to a port
// carried bytes; 0 if a call or a process is under way, or a stray at large runs.
func (a *Agent) idle() time.Duration {
	last, idle := a.activity.idleSince()
	if !idle || a.processes.Running() > 0 {
		return 0
	}
	if t := a.processes.LastActive(); t.After(last) {
		last = t
	}
	since := time.Since(last)
	if since > strayDelay && a.hasStrayAtLarge() {
		a.activity.touch()
		return 0
	}
	return since
}

// idleWithin returns for how long the agent has been idle in the sense of a limit.
func (a *Agent) idleWithin(limit idleLimit) time.Duration {
	if !limit.ignoresCommands {
		return a.idle()
	}
	last, idle := a.activity.idleSince()
	if !idle {
		return 0
	}
	return time.Since(last)
}

// hasStrayAtLarge reports whether something runs that hides whose it is. What a command
// merely left behind does not keep the agent from being idle.
func (a *Agent) hasStrayAtLarge() bool {
	_, atLarge, err := a.processes.Strays()
	if err != nil {
		a.log.Warn("cannot look for strays", "error", err)
	}
	return atLarge > 0
}

func (s *agentService) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	env := toStrings(r.Env)
	if err := checkEnv(env); err != nil {
		return nil, err
	}
	workdir := string(r.Workdir)
	if err := checkWorkdir(workdir); err != nil {
		return nil, &fs.PathError{Op: "configure", Path: workdir, Err: err}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.keys.follow(r.Keychain); err != nil {
		return nil, err
	}
	if err := s.takeAssignment(r.Assignment); err != nil {
		return nil, err
	}
	if s.assignment.awaited.Load() && !isForKeys(r) {
		return nil, wire.ErrUnassigned
	}
	if err := s.protect(workdir, toStrings(r.ProtectedPaths), !r.KeepProtectedPaths); err != nil {
		return nil, err
	}
	if !r.KeepEnv {
		s.setEnv(env)
	}
	if r.Expires != 0 {
		s.life.set(time.Unix(0, r.Expires), r.Sooner)
	}
	return &pb.ConfigureResponse{}, nil
}

// checkWorkdir refuses a path that is not an absolute path of a directory. An empty path
// stands for no workdir and is fine.
func checkWorkdir(dir string) error {
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("workdir is not absolute: %w", syscall.EINVAL)
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return err
}
