package gateway

import (
	"context"
	"net/http"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

func (g *Gateway) statsOperations() {
	register(g, http.MethodGet, sandboxRoot+"/stats", "get-stats", "Get what a sandbox uses, and may use; this does not end its idle time", g.stats)
}

// Stats is what the container of a sandbox uses, and may use. What is not known is absent, as
// all but the disk is where there is no container.
type Stats struct {
	Time          time.Time `json:"time" doc:"when the numbers were read, by the sandbox's clock"`
	CPU           *float64  `json:"cpu_seconds,omitempty" doc:"the processor time used since the container started"`
	CPUThrottled  *float64  `json:"cpu_throttled_seconds,omitempty" doc:"how long the limit of processors held it up"`
	CPULimit      *float64  `json:"cpu_limit_cores,omitempty" doc:"how many processors it may use"`
	Memory        *int64    `json:"memory_bytes,omitempty" doc:"all memory in use, with the page cache"`
	WorkingSet    *int64    `json:"memory_working_set_bytes,omitempty" doc:"without the file pages not used of late, which the kernel drops first: what the kubelet counts"`
	MemoryPeak    *int64    `json:"memory_peak_bytes,omitempty" doc:"the highest memory_bytes so far"`
	MemoryLimit   *int64    `json:"memory_limit_bytes,omitempty"`
	PIDs          *int64    `json:"pids,omitempty" doc:"processes and threads"`
	PIDsLimit     *int64    `json:"pids_limit,omitempty"`
	DiskSize      *int64    `json:"disk_size_bytes,omitempty" doc:"of the file system with the workdir, which others may use, too"`
	DiskUsed      *int64    `json:"disk_used_bytes,omitempty"`
	DiskAvailable *int64    `json:"disk_available_bytes,omitempty"`
	Inodes        *int64    `json:"inodes,omitempty" doc:"how many files that file system can have"`
	InodesUsed    *int64    `json:"inodes_used,omitempty"`
}

type statsOutput struct{ Body Stats }

func (g *Gateway) stats(ctx context.Context, in *sandboxPath) (*statsOutput, error) {
	out := &statsOutput{}
	return out, g.lookAt(ctx, in.ID, func(s *launcher.Sandbox) error {
		all, err := s.Stats(ctx)
		out.Body = statsOf(all)
		return err
	})
}

func statsOf(s podapi.Stats) Stats {
	return Stats{
		s.Time.UTC(), inSeconds(s.CPU), inSeconds(s.CPUThrottled), s.CPULimit,
		s.Memory, s.MemoryWorkingSet, s.MemoryPeak, s.MemoryLimit, s.PIDs, s.PIDsLimit,
		s.DiskSize, s.DiskUsed, s.DiskAvailable, s.Inodes, s.InodesUsed,
	}
}

func inSeconds(d *time.Duration) *float64 {
	if d == nil {
		return nil
	}
	return new(d.Seconds())
}
