package gateway_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
)

// auditText is the log of a gateway.
type auditText struct {
	mu sync.Mutex
	bytes.Buffer
}

func (a *auditText) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.Buffer.Write(p)
}

// linesOf returns the lines of a tenant.
func (a *auditText) linesOf(t *testing.T, tenant string) (lines []string) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for text := range strings.Lines(a.String()) {
		var line struct{ Tenant string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line.Tenant == tenant {
			lines = append(lines, text)
		}
	}
	return lines
}

func audited(t *testing.T) (*auditText, func(*gateway.Options)) {
	t.Helper()
	out := &auditText{}
	log, err := audit.New(audit.Options{Out: out, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		t.Fatal(err)
	}
	return out, func(o *gateway.Options) {
		o.Observers = append(o.Observers, log)
		t.Cleanup(func() {
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Secrets that are typed into a command are in no line, and neither is what is not logged at all.
func TestTheAuditLogHasNoSecrets(t *testing.T) {
	out, with := audited(t)
	d := newDoor(t, with)
	const secret = "hunter2hunter2"
	d.walk(
		step{"POST", "/api/v1/sandboxes", `{"id":"job-1","env":["A=` + secret + `"]}`, nil, 201, ""},
		step{"POST", "~/exec", `{"args":["echo","--password","` + secret + `"],"stdin":"aHVudGVyMmh1bnRlcjI=","env":["A=` + secret + `"]}`, nil, 200, ""},
		step{"POST", "~/exec", `{"script":"TOKEN=` + secret + ` true"}`, nil, 200, ""},
		step{"PUT", "~/files?path=a", secret, nil, 201, ""},
		step{"GET", "/a?podagent_link=" + secret, "", []string{"X-Sandbox-ID: job-1", "X-Sandbox-Port: 1"}, 502, ""},
	)
	eventually(t, "the end of the calls", func() bool { return len(out.linesOf(t, "acme")) == 10 })
	if text := strings.Join(out.linesOf(t, "acme"), ""); strings.Contains(text, secret) || strings.Contains(text, "aHVudGVyMmh1bnRlcjI") || strings.Count(text, "***") != 2 {
		t.Errorf("the log is %s", text)
	}
}
