package agentsandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

func TestFilesOfSandboxd(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Works, "sandboxd: Write", "sandboxd: Read", "sandboxd: List", "sandboxd: Exists", "sandboxd: Delete", "sandboxd: metadata")
	body, kind := form([2]string{"note", "x"}, [2]string{"file/other-name", "by a form"})
	v1 := "X-Sandbox-Port: 8080"
	b.steps([]step{
		{"GET", "/v1/metadata", "", []string{v1}, 200, []string{`{"env":{"SANDBOX_NAME":"one"}}`}},
		{"PUT", "/v1/files/dir%2Fa.txt?mode=0600", "content", []string{v1}, 204, nil},
		{"PUT", "/v1/files/dir/b.txt", body, []string{v1, kind}, 204, nil},
		{"GET", "/v1/files/dir%2Fa.txt", "", []string{v1}, 200, []string{"content"}},
		{"GET", "/v1/files/dir/b.txt", "", []string{v1, "Range: bytes=3-6"}, 206, []string{"a fo"}},
		{"GET", "/v1/files/dir", "", []string{v1}, 200, []string{`{"path":"/dir","entries":[{"name":"a.txt","size":7,"type":"file","modified_at":"`, `"mode":"0600"}`, `"name":"b.txt"`}},
		{"GET", "/v1/files/", "", []string{v1}, 200, []string{`{"path":"/","entries":[{"name":"dir"`, `"type":"directory"`}},
		{"PUT", "/v1/files/dir%2Fa.txt", "shorter", []string{v1}, 204, nil},
		{"GET", "/v1/files/dir", "", []string{v1}, 200, []string{`"mode":"0600"`}}, // a file keeps its mode
		{"DELETE", "/v1/files/dir", "", []string{v1}, 409, []string{`{"code":"CONFLICT","message":`}},
		{"DELETE", "/v1/files/dir?recursive=true", "", []string{v1}, 204, nil},
		{"DELETE", "/v1/files/dir", "", []string{v1}, 404, []string{`{"code":"NOT_FOUND","message":`}},
		{"PUT", "/v1/files/c", "x", []string{v1}, 204, nil},
		{"POST", "/execute", fmt.Sprintf(`{"command":"sh -c 'touch $(seq %d)'"}`, 2*removedAtOnce), nil, 200, []string{`"exit_code":0`}}, // more than are removed at once
		{"DELETE", "/v1/files/%2E", "", []string{v1}, 409, []string{`"CONFLICT"`}},
		{"DELETE", "/v1/files/%2E?recursive=true", "", []string{v1}, 204, nil},
		{"GET", "/v1/files/", "", []string{v1}, 200, []string{`"entries":[]`}},
	})
	for path, want := range map[string]int{"/v1/files/%2E": 200, "/v1/files/none": 404} {
		if code, body := b.call("HEAD", path, "", v1); code != want || body != "" {
			t.Errorf("HEAD of %s: %d %q", path, code, body)
		}
	}
}

func TestHealthIsTheSandboxs(t *testing.T) {
	b := newBox(t)
	b.saw(contracts.Differs, "sandboxd: health")
	health := step{"GET", "/v1/health", "", []string{"X-Sandbox-Port: 8080"}, 200, []string{`{"status":"ok","uptime_seconds":0}`}}
	b.steps([]step{health})
	if code, body := b.send("DELETE", "/api/v1/sandboxes/job-1", "", "Authorization: Bearer a"); code != 204 {
		t.Fatal(body)
	}
	health.code, health.want = 410, []string{`{"code":"UNAVAILABLE"`}
	b.steps([]step{health})
}

func TestLinksAreListedAsWhatTheyLeadTo(t *testing.T) {
	b := newBox(t)
	if err := os.WriteFile(filepath.Join(b.sandbox.Workdir, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "file", "broken": "none"} {
		if err := os.Symlink(to, filepath.Join(b.sandbox.Workdir, name)); err != nil {
			t.Fatal(err)
		}
	}
	code, body := b.call("GET", "/v1/files/", "", "X-Sandbox-Port: 8080")
	if code != 200 || strings.Contains(body, "broken") || !strings.Contains(body, `{"name":"link","size":7,"type":"file"`) {
		t.Errorf("%d %s", code, body)
	}
}

func TestWrongRequestsToSandboxd(t *testing.T) {
	b := newBox(t)
	nameless, namelessKind := form([2]string{"note", "x"})
	v1 := "X-Sandbox-Port: 8080"
	b.steps([]step{
		{"PUT", "/v1/files/a", "x", []string{v1}, 204, nil},
		{"PUT", "/v1/files/a%2Fb", "x", []string{v1}, 400, []string{`{"code":"INVALID_ARGUMENT","message":`}},
		{"PUT", "/v1/files/%2E", "x", []string{v1}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"PUT", "/v1/files/b?mode=9", "x", []string{v1}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"PUT", "/v1/files/b?mode=4755", "x", []string{v1}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"PUT", "/v1/files/b?mode=01777", "x", []string{v1}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"PUT", "/v1/files/b", nameless, []string{v1, namelessKind}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"PUT", "/v1/files/..%2Fb", "x", []string{v1}, 403, []string{`{"code":"PERMISSION_DENIED","message":`}},
		{"GET", "/v1/files/..%2F..%2Fetc", "", []string{v1}, 403, []string{`"PERMISSION_DENIED"`}},
		{"DELETE", "/v1/files/%2E%2E?recursive=true", "", []string{v1}, 403, []string{`"PERMISSION_DENIED"`}},
		{"GET", "/v1/files/none", "", []string{v1}, 404, []string{`"NOT_FOUND"`}},
		{"GET", "/v1/files/a", "", []string{v1, "Range: bytes=7-"}, 416, []string{`"INVALID_ARGUMENT"`}},
		{"DELETE", "/v1/files/a?recursive=maybe", "", []string{v1}, 400, []string{`"INVALID_ARGUMENT"`}},
		{"POST", "/v1/files/a", "x", []string{v1}, 405, []string{`"UNIMPLEMENTED"`}},
		{"GET", "/v1/none", "", []string{v1}, 404, []string{`"NOT_FOUND"`}},
	})
	if _, err := os.Stat(filepath.Join(b.sandbox.Workdir, "b")); err == nil {
		t.Error("a request that was refused has written a file")
	}
}
