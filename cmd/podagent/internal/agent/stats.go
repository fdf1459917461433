package agent

import (
	"context"
	"os"
	"time"

	"github.com/podagent/podagent/pkg/podapi/isolation"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
)

func (s *agentService) Stats(ctx context.Context, _ *pb.StatsRequest) (*pb.StatsResponse, error) {
	u := s.processes.Usage()
	r := &pb.StatsResponse{
		Time: time.Now().UnixNano(),
		Cpu:  nanoseconds(u.CPU), CpuThrottled: nanoseconds(u.Throttled), CpuLimit: nanoseconds(u.CPULimit),
		Memory: u.Memory, MemoryWorkingSet: u.WorkingSet, MemoryPeak: u.Peak, MemoryLimit: u.MemoryLimit,
		Pids: u.PIDs, PidsLimit: u.PIDLimit,
	}
	if d := s.disk.read(ctx, s.fs.Workdir()); d != nil {
		r.DiskSize, r.DiskUsed, r.DiskAvailable = d.size, d.used, d.available
		r.Inodes, r.InodesUsed = d.inodes, d.inodesUsed
	}
	return r, ctx.Err()
}

// ownGroup reports whether nothing but the sandbox runs in the agent's control group. A
// container has a group of its own; elsewhere the agent shares that of whoever started it.
func (c *Config) ownGroup() bool {
	if c.Isolation.Level != isolation.None { // it may be number 1 of namespaces that share a group
		return c.Isolation.Limiter == isolation.ControlGroup
	}
	return c.PodUID != "" || os.Getpid() == 1
}

func nanoseconds(d *time.Duration) *int64 { return (*int64)(d) }
