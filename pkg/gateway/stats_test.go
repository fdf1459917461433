package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatsSayWhatIsKnown(t *testing.T) {
	d := newDoor(t)
	d.send("a", "POST", "/api/v1/sandboxes", `{"id":"job-1"}`)
	d.walk(
		step{"GET", "/api/v1/sandboxes/none/stats", "", nil, 404, `"class":"no_sandbox"`},
		step{"GET", "/api/v1/sandboxes/No/stats", "", nil, 422, ``},
	)
	got := d.send("a", "GET", "/api/v1/sandboxes/job-1/stats", "")
	var s struct {
		Time string `json:"time"`
		Size int64  `json:"disk_size_bytes"`
		Used *int64 `json:"disk_used_bytes"`
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(t.TempDir(), &disk); err != nil { // the sandboxes are there, too
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.text), &s); err != nil || got.StatusCode != 200 || s.Time == "" ||
		s.Size != int64(disk.Blocks)*disk.Frsize || s.Used == nil || *s.Used > s.Size {
		t.Errorf("%d %s, %v; statfs says %+v", got.StatusCode, got.text, err, disk)
	}
	// A local sandbox shares the control group of this test, whose use is nobody's business.
	for _, name := range []string{"cpu_", "memory_", "pids"} {
		if strings.Contains(got.text, name) {
			t.Errorf("it knows %s: %s", name, got.text)
		}
	}
	for token, status := range map[string]int{"o": 404, "x": 401} {
		if got := d.send(token, "GET", "/api/v1/sandboxes/job-1/stats", ""); got.StatusCode != status {
			t.Errorf("the caller %s gets %d %s", token, got.StatusCode, got.text)
		}
	}
}
