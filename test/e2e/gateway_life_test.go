package e2e

// The gateway over sandboxes in pods.

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestGatewaySetsWhenASandboxInAPodEnds(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	g := gateway.New(gateway.Options{Launcher: c.Launcher(), Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Base: c.Spec("")})
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	send := func(method, path, body string, status int) (answer struct {
		ExpiresAt time.Time         `json:"expires_at"`
		Labels    map[string]string `json:"labels"`
		Class     string            `json:"class"`
	},
	) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1/sandboxes"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer a")
		req.Header.Set("Content-Type", "application/json")
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil || r.StatusCode != status {
			t.Fatalf("%s %s: %d %s, want %d: %v", method, path, r.StatusCode, text, status, err)
		}
		return answer
	}
	send("POST", "", `{"id":"job-1","lifetime_seconds":600,"labels":{"team":"red"}}`, 201)
	before := send("GET", "/job-1", "", 200)
	if before.ExpiresAt.IsZero() || before.Labels["team"] != "red" {
		t.Errorf("it is %+v", before)
	}
	at := time.Now().Add(time.Hour).UTC()
	set := func(at time.Time) string { return fmt.Sprintf(`{"at":%q}`, at.Format(time.RFC3339Nano)) }
	if put := send("PUT", "/job-1/expires", set(at), 200); !put.ExpiresAt.Equal(at) {
		t.Errorf("it ends at %v, want %v", put.ExpiresAt, at)
	}
	if now := send("GET", "/job-1", "", 200); !now.ExpiresAt.Equal(at) {
		t.Errorf("it says %v, want %v", now.ExpiresAt, at)
	}
	for _, wrong := range []struct {
		path   string
		at     time.Time
		status int
		class  string
	}{
		{"/job-1/expires", at.Add(-2 * time.Hour), 422, "invalid"},
		{"/job-1/expires", at.Add(24 * time.Hour), 409, "deadline"},
		{"/none/expires", at, 404, "no_sandbox"},
	} {
		if got := send("PUT", wrong.path, set(wrong.at), wrong.status); got.Class != wrong.class {
			t.Errorf("%+v is of class %q", wrong, got.Class)
		}
	}
	send("DELETE", "/job-1", "", 204)
	send("GET", "/job-1", "", 404)
}
