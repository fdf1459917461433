package e2e

// The audit logs of replicas of a gateway that are killed.

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// trail is what callers know of what must be in the audit logs. It sends their requests.
type trail struct {
	mu       sync.Mutex
	attempts int             // to send a request
	answered map[string]bool // the ids of requests, by the answers
}

// RoundTrip implements [http.RoundTripper].
func (tr *trail) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { tr.attempt(nil) }, // net/http tries again by itself
	}))
	transport := http.DefaultTransport
	if r.Close {
		transport = &http.Transport{} // with no connection that was used
	}
	answer, err := transport.RoundTrip(r)
	if err == nil {
		tr.answer(answer)
	}
	return answer, err
}

func (tr *trail) attempt(answer *http.Response) {
	tr.mu.Lock()
	tr.attempts++
	tr.mu.Unlock()
	if answer != nil {
		tr.answer(answer)
	}
}

func (tr *trail) answer(r *http.Response) {
	if id := r.Header.Get("X-Request-Id"); id != "" {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		if tr.answered == nil {
			tr.answered = map[string]bool{}
		}
		tr.answered[id] = true
	}
}

// auditLogs are those of programs.
type auditLogs struct {
	dir, key string
	started  int          // how many programs
	killed   map[int]bool // the pids of those that could not end their logs
}

func newAuditLogs(t *testing.T) auditLogs {
	dir := t.TempDir()
	return auditLogs{dir: filepath.Join(dir, "logs"), key: filepath.Join(dir, "audit.pem"), killed: map[int]bool{}}
}

// end ends the gateways in good order.
func (p *gatewayPrograms) end() {
	for _, one := range p.all {
		_ = one.cmd.Process.Signal(syscall.SIGTERM)
		_ = one.cmd.Wait()
	}
}

// checkAudit checks that the logs are as they were written, that all calls in them have ended but those
// of gateways that were killed, and that each request that was answered began once.
func (p *gatewayPrograms) checkAudit(r *replicas) {
	for _, c := range p.verified(r) {
		if killed := p.audit.killed[c.PID]; (c.State == "closed") == killed || len(c.Open) > 0 && !killed {
			r.Errorf("the log of a gateway that was killed (%t) is %s, and has %d calls open", killed, c.State, len(c.Open))
		}
	}
	begins := p.begins(r)
	sent, commands := 0, 0 // by REST, and by podapi
	for id, all := range begins {
		if len(all) != 1 {
			r.Errorf("the request %s begins %d times", id, len(all))
		}
		switch operation := all[0]; {
		case operation == "podapi.v1.Processes/Exec":
			commands++
		case operation != "get-sandbox" && !strings.HasPrefix(operation, "podapi."):
			sent++
		}
	}
	for id := range r.trail.answered {
		if len(begins[id]) == 0 {
			r.Errorf("the request %s was answered, and did not begin", id)
		}
	}
	if sent > r.trail.attempts || len(r.trail.answered) == 0 {
		r.Errorf("%d requests begin of %d that were sent; %d were answered", sent, r.trail.attempts, len(r.trail.answered))
	}
	if ran := int(r.commands.Load()); ran == 0 || commands < ran {
		r.Errorf("%d commands begin by podapi, of which %d ended", commands, ran)
	}
}

// auditedChain is what verify says of the log of a gateway.
type auditedChain struct {
	Chain, State string
	PID          int
	Open         []struct{ ID string }
}

func (p *gatewayPrograms) verified(r *replicas) (chains []auditedChain) {
	cmd := exec.Command(p.path, "audit", "verify", "-o", "json", "--audit-key-file", p.audit.key, p.audit.dir)
	cmd.Stderr = r.Output()
	out, err := cmd.Output()
	if err != nil {
		r.Errorf("verify: %v\n%s", err, out)
	}
	for lines := json.NewDecoder(bytes.NewReader(out)); ; {
		var c auditedChain
		err := lines.Decode(&c)
		switch {
		case errors.Is(err, io.EOF):
			return chains
		case err != nil:
			r.Fatal(err)
		case c.Chain != "":
			chains = append(chains, c)
		}
	}
}

// begins returns the operations of requests that begin, by their ids.
func (p *gatewayPrograms) begins(r *replicas) map[string][]string {
	files, err := filepath.Glob(filepath.Join(p.audit.dir, "*.jsonl"))
	if err != nil || len(files) != p.audit.started {
		r.Fatalf("%d gateways have the logs %q: %v", p.audit.started, files, err)
	}
	begins := map[string][]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			r.Fatal(err)
		}
		for each := range bytes.Lines(text) {
			var line struct{ Type, ID, Operation string }
			if json.Unmarshal(each, &line) == nil && line.Type == "begin" {
				begins[line.ID] = append(begins[line.ID], line.Operation)
			}
		}
	}
	return begins
}
