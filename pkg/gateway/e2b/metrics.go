package e2b

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/podagent/podagent/pkg/gateway/internal/faces"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
)

// metric is what a sandbox uses at a time. A number that is not known is 0.
type metric struct {
	Time      time.Time `json:"timestamp"`
	Unix      int64     `json:"timestampUnix"`
	CPUUsed   float64   `json:"cpuUsedPct"` // of all its processors
	CPUs      int64     `json:"cpuCount"`
	MemUsed   int64     `json:"memUsed"`
	MemTotal  int64     `json:"memTotal"`
	MemCache  int64     `json:"memCache"`
	DiskUsed  int64     `json:"diskUsed"`
	DiskTotal int64     `json:"diskTotal"`
}

// metrics answers with what the sandbox uses now, which does not wake it: earlier numbers are not kept.
func (c *control) metrics() error {
	ctx, all := c.r.Context(), []metric{}
	p, err := c.present()
	if err != nil {
		return err
	}
	wanted, err := wantsNow(c.r.URL.Query(), time.Now())
	if err != nil {
		return err
	}
	if p.State == stateRunning && wanted {
		m, err := c.measure(ctx)
		switch {
		case errors.Is(err, launcher.ErrPaused): // by now
		case err != nil:
			return err
		default:
			all = append(all, *m)
		}
	}
	faces.WriteJSON(c.w, http.StatusOK, all)
	return nil
}

// wantsNow reports whether the present is in the time range of a query, whose bounds are rounded to seconds.
func wantsNow(q url.Values, now time.Time) (bool, error) {
	wanted := true
	for name, sign := range map[string]int64{"start": 1, "end": -1} {
		if !q.Has(name) {
			continue
		}
		at, err := strconv.ParseInt(q.Get(name), 10, 64)
		if err != nil {
			return false, faces.BadRequest("%s: %.100q is no number of seconds since 1970", name, q.Get(name))
		}
		wanted = wanted && sign*now.Unix() >= sign*at-1
	}
	return wanted, nil
}

func (c *control) measure(ctx context.Context) (m *metric, err error) {
	err = c.Use(ctx, c.name, false, func(s *launcher.Sandbox) (err error) {
		m, err = measure(ctx, s)
		return err
	})
	return m, err
}

// measure looks at a sandbox twice, since the use of processors shows only over a time.
func measure(ctx context.Context, s *launcher.Sandbox) (*metric, error) {
	before, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(metricsSpan):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	now, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	return metricOf(&before, &now), nil
}

func metricOf(before, now *podapi.Stats) *metric {
	at := time.Now().UTC() // the sandbox's clock may say anything
	m := &metric{Time: at, Unix: at.Unix(), MemTotal: deref(now.MemoryLimit), DiskUsed: deref(now.DiskUsed), DiskTotal: deref(now.DiskSize)}
	m.MemUsed = deref(now.MemoryWorkingSet)
	m.MemCache = max(0, deref(now.Memory)-m.MemUsed)
	limit := 1.0
	if now.CPULimit != nil {
		limit = *now.CPULimit
		m.CPUs = int64(math.Ceil(limit))
	}
	if span := now.Time.Sub(before.Time); now.CPU != nil && before.CPU != nil && span > 0 && limit > 0 {
		m.CPUUsed = 100 * float64(*now.CPU-*before.CPU) / float64(span) / limit
	}
	return m
}

func deref(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// envdMetrics is a metric as envd tells it.
type envdMetrics struct {
	Unix      int64   `json:"ts"`
	CPUs      int64   `json:"cpu_count"`
	CPUUsed   float64 `json:"cpu_used_pct"`
	MemUsed   int64   `json:"mem_used"`
	MemTotal  int64   `json:"mem_total"`
	MemCache  int64   `json:"mem_cache"`
	DiskUsed  int64   `json:"disk_used"`
	DiskTotal int64   `json:"disk_total"`
}

func envdMetricsOf(m *metric) envdMetrics {
	return envdMetrics{m.Unix, m.CPUs, m.CPUUsed, m.MemUsed, m.MemTotal, m.MemCache, m.DiskUsed, m.DiskTotal}
}
