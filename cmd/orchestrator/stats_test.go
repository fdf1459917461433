package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestStatsText(t *testing.T) {
	s := podapi.Stats{
		Time: time.Unix(1, 0), CPU: new(12345 * time.Millisecond), CPUThrottled: new(1500 * time.Millisecond), CPULimit: new(1.5),
		Memory: new(int64(3 << 20)), MemoryWorkingSet: new(int64(2 << 20)), MemoryPeak: new(int64(4 << 20)),
		PIDs: new(int64(7)), PIDsLimit: new(int64(1024)), DiskSize: new(int64(1 << 40)), DiskUsed: new(int64(0)), DiskAvailable: new(int64(1 << 30)),
	}
	const want = `cpu time:      12.345s (throttled for 1.5s)
cpu limit:     1.5 processors
memory:        3.0 MiB
working set:   2.0 MiB
memory peak:   4.0 MiB
memory limit:  none
pids:          7
pids limit:    1024
disk:          0 B of 1.0 TiB used, 1.0 GiB available
inodes:        unknown of unknown used
`
	if got := string(statsText(s)); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	const wantJSON = `{"time":"1970-01-01T00:00:01Z","cpu_ms":12345,"cpu_throttled_ms":1500,"cpu_limit_cores":1.5,` +
		`"memory_bytes":3145728,"memory_working_set_bytes":2097152,"memory_peak_bytes":4194304,"pids":7,"pids_limit":1024,` +
		`"disk_size_bytes":1099511627776,"disk_used_bytes":0,"disk_available_bytes":1073741824}`
	if got, err := json.Marshal(newStats(s)); string(got) != wantJSON || err != nil {
		t.Errorf("got %s, %v\nwant %s", got, err, wantJSON)
	}
}
