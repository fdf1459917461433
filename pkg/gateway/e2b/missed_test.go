package e2b

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Clients that try again do so only if the answer names the sandbox that they asked for.
func TestAnswerOf502NamesTheSandboxThatWasNotReached(t *testing.T) {
	d := newEnvdDoor(t)
	check := func(what string, got reply, want map[string]any) {
		t.Helper()
		var body map[string]any
		if err := json.Unmarshal([]byte(got.text), &body); err != nil || got.StatusCode != http.StatusBadGateway {
			t.Fatalf("%s: %d %s: %v", what, got.StatusCode, got.text, err)
		}
		delete(body, "message")
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("a port", d.send("GET", "/", "", headerPort+": 1"), map[string]any{"code": 502., "sandboxId": d.id, "port": 1.})
	d.rest("DELETE", "/api/v1/sandboxes/job", "")
	gone, refused := map[string]any{"code": 502., "sandboxId": d.id}, map[string]any{"code": "unavailable", "sandboxId": d.id}
	check("a port of none", d.send("GET", "/", "", headerPort+": 1"), gone)
	check("envd's files", d.send("GET", "/files?path=x", ""), gone)
	check("a method", d.call("filesystem.Filesystem/Stat", `{"path":"file"}`), refused)
	check("a stream", d.send("POST", "/filesystem.Filesystem/WatchDir", envelope(0, `{"path":"."}`), "Content-Type: "+streamType), refused)
}
