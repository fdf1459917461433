package e2b

import (
	"context"
	"math"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// metrics are what a sandbox uses, as the control plane tells it. What is not known is 0.
type metrics struct {
	Timestamp time.Time `json:"timestamp"`
	Unix      int64     `json:"timestampUnix"`
	CPUCount  int64     `json:"cpuCount"`
	CPUUsed   float64   `json:"cpuUsedPct"` // in percent of them all
	MemUsed   int64     `json:"memUsed"`    // in bytes, as are the others
	MemTotal  int64     `json:"memTotal"`
	MemCache  int64     `json:"memCache"`
	DiskUsed  int64     `json:"diskUsed"`
	DiskTotal int64     `json:"diskTotal"`
}

// measure looks at a sandbox twice, since the use of processors is only told as a sum.
func measure(ctx context.Context, s *launcher.Sandbox) (metrics, error) {
	before, err := s.Stats(ctx)
	if err != nil {
		return metrics{}, err
	}
	select {
	case <-time.After(sampleTime):
	case <-ctx.Done():
		return metrics{}, context.Cause(ctx)
	}
	now, err := s.Stats(ctx)
	return metricsOf(before, now), err
}

func metricsOf(before, now podapi.Stats) metrics {
	m := metrics{
		Timestamp: time.Now().UTC(), MemUsed: known(now.MemoryWorkingSet), MemTotal: known(now.MemoryLimit),
		MemCache: max(0, known(now.Memory)-known(now.MemoryWorkingSet)),
		DiskUsed: known(now.DiskUsed), DiskTotal: known(now.DiskSize),
	}
	m.Unix = m.Timestamp.Unix()
	cores := 1.0
	if limit := now.CPULimit; limit != nil && *limit > 0 && *limit < math.MaxInt32 {
		cores, m.CPUCount = *limit, int64(math.Ceil(*limit))
	}
	if took := now.Time.Sub(before.Time); took > 0 && before.CPU != nil && now.CPU != nil {
		m.CPUUsed = math.Round(1e4*float64(*now.CPU-*before.CPU)/float64(took)/cores) / 100
	}
	return m
}

func known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// envdMetrics is the same as envd tells it.
type envdMetrics struct {
	Unix      int64   `json:"ts"`
	CPUCount  int64   `json:"cpu_count"`
	CPUUsed   float64 `json:"cpu_used_pct"`
	MemUsed   int64   `json:"mem_used"`
	MemTotal  int64   `json:"mem_total"`
	MemCache  int64   `json:"mem_cache"`
	DiskUsed  int64   `json:"disk_used"`
	DiskTotal int64   `json:"disk_total"`
}

func envdMetricsOf(m metrics) envdMetrics {
	return envdMetrics{m.Unix, m.CPUCount, m.CPUUsed, m.MemUsed, m.MemTotal, m.MemCache, m.DiskUsed, m.DiskTotal}
}
