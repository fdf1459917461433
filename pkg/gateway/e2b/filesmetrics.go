package e2b

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
