package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/isolation"
)

// A list of as many entries as there may be could have 60 MiB of names and targets.
func TestListIsBoundedInBytes(t *testing.T) {
	d := newDoor(t)
	d.sandbox()
	var info struct{ Workdir string }
	if err := json.Unmarshal([]byte(d.send("a", "GET", job, "").text), &info); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(info.Workdir, "links")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target := strings.Repeat("x", 4000)
	for i := range 1500 {
		if err := os.Symlink(target, filepath.Join(dir, fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	got := d.send("a", "GET", job+"/files/list?path=links", "")
	var list struct {
		Entries   []gateway.File
		Truncated bool
	}
	if err := json.Unmarshal([]byte(got.text), &list); err != nil || got.StatusCode != http.StatusOK {
		t.Fatalf("%d: %v", got.StatusCode, err)
	}
	if n := len(list.Entries); !list.Truncated || n < 1000 || n > 1100 || len(got.text) > 5<<20 {
		t.Errorf("%d entries in %d bytes, truncated: %t", n, len(got.text), list.Truncated)
	}
	for _, e := range list.Entries {
		if e.Target != target {
			t.Fatalf("%s leads to %.20q", e.Path, e.Target)
		}
	}
}

// A gateway that runs sandboxes itself says what keeps each from its machine.
func TestSandboxesSayWhatIsolatesThem(t *testing.T) {
	for mode, says := range map[string]string{"none": "none", "landlock": "landlock", "auto": "(namespaces|landlock)"} {
		t.Run(mode, func(t *testing.T) {
			l := launchertest.Local(t)
			l.Isolation = isolation.Mode(mode)
			d := newDoor(t, func(o *gateway.Options) { o.Launcher = l })
			d.sandbox()
			for _, path := range []string{job, "/api/v1/sandboxes"} {
				d.walk(step{"GET", path, "", nil, 200, `"isolation":"` + says + `"`})
			}
		})
	}
}
