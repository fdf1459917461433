package e2b_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/podagent/podagent/test/contracts"
)

func TestMetricsAreOfNow(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "getMetrics")
	d := newDoor(t)
	var got []struct {
		Timestamp           time.Time
		DiskUsed, DiskTotal int64
	}
	d.call("GET", "/sandboxes/"+d.create(`{}`).SandboxID+"/metrics", "", http.StatusOK, &got)
	if len(got) != 1 || time.Since(got[0].Timestamp).Abs() > time.Hour || got[0].DiskTotal < got[0].DiskUsed || got[0].DiskTotal == 0 {
		t.Errorf("they are %+v", got)
	}
}
