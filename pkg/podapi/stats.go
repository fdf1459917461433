package podapi

import (
	"context"
	"fmt"
	"time"

	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/podapi/wire"
)

// Stats is what a sandbox's container uses and may use. A nil number is not known, as all but
// the disk without a container; a nil limit may also mean that there is none.
type Stats struct {
	Time              time.Time      // when the numbers were read, by the sandbox's clock
	CPU, CPUThrottled *time.Duration // processor time since the container's start, and how long its limit held it up
	CPULimit          *float64       // in processors
	// In bytes: Memory with the page cache, and MemoryWorkingSet without what the kernel drops
	// first, as the kubelet counts. MemoryPeak is the highest Memory so far.
	Memory, MemoryWorkingSet, MemoryPeak, MemoryLimit *int64
	PIDs, PIDsLimit                                   *int64 // processes and threads
	// Of the file system with the workdir, in bytes and inodes. Others may use it, too.
	DiskSize, DiskUsed, DiskAvailable, Inodes, InodesUsed *int64
}

// Stats asks what the sandbox uses. It does not end the idle time ([Info.Idle]). The error of
// an agent that is too old is [ErrVersion].
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	r, err := c.agent.Stats(ctx, &pb.StatsRequest{})
	switch {
	case isUnknownCall(err):
		err = fmt.Errorf("%w: the agent knows no stats: update the agent's image", ErrVersion)
	case err != nil:
		err = wire.FromStatus(err)
	default:
		err = checkStats(r)
	}
	if err != nil {
		return Stats{}, err
	}
	s := Stats{
		Time: time.Unix(0, r.Time), CPU: (*time.Duration)(r.Cpu), CPUThrottled: (*time.Duration)(r.CpuThrottled),
		Memory: r.Memory, MemoryWorkingSet: r.MemoryWorkingSet, MemoryPeak: r.MemoryPeak, MemoryLimit: r.MemoryLimit,
		PIDs: r.Pids, PIDsLimit: r.PidsLimit,
		DiskSize: r.DiskSize, DiskUsed: r.DiskUsed, DiskAvailable: r.DiskAvailable, Inodes: r.Inodes, InodesUsed: r.InodesUsed,
	}
	if r.CpuLimit != nil {
		s.CPULimit = new(float64(*r.CpuLimit) / float64(time.Second))
	}
	return s, nil
}

// checkStats refuses negative numbers.
func checkStats(r *pb.StatsResponse) error {
	for _, n := range []*int64{
		&r.Time, r.Cpu, r.CpuThrottled, r.CpuLimit, r.Memory, r.MemoryWorkingSet, r.MemoryPeak, r.MemoryLimit,
		r.Pids, r.PidsLimit, r.DiskSize, r.DiskUsed, r.DiskAvailable, r.Inodes, r.InodesUsed,
	} {
		if n != nil && *n < 0 {
			return protocolError("a number of %d in the stats", *n)
		}
	}
	return nil
}
