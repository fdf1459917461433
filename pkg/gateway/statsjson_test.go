package gateway

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

func TestStatsTellZeroFromUnknown(t *testing.T) {
	text, err := json.Marshal(statsOf(podapi.Stats{
		Time: time.Unix(1, 0), CPU: new(1500 * time.Millisecond), CPUThrottled: new(time.Duration(0)), CPULimit: new(0.5),
		Memory: new(int64(7)), PIDs: new(int64(0)),
	}))
	const want = `{"time":"1970-01-01T00:00:01Z","cpu_seconds":1.5,"cpu_throttled_seconds":0,"cpu_limit_cores":0.5,"memory_bytes":7,"pids":0}`
	if string(text) != want || err != nil {
		t.Errorf("got %s, %v\nwant %s", text, err, want)
	}
}
