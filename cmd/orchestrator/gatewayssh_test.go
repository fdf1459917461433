//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestGatewayServesSSHByItsProgram(t *testing.T) {
	for _, program := range []string{"ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatal(err)
		}
	}
	t.Parallel()
	c, dir := newCLI(t), t.TempDir()
	key, known, audit := filepath.Join(dir, "key"), filepath.Join(dir, "known"), filepath.Join(dir, "audit")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	g := c.gateway("--ssh-listen", ":0", "--ssh-authorized-keys", key+".pub", "--audit", audit)
	if r := g.ask("POST", g.URL+"/api/v1/sandboxes", `{"id": "job-1"}`, "Content-Type: application/json"); r.StatusCode != 201 {
		t.Fatal(r.Status)
	}
	at, err := url.Parse(g.SSH)
	if err != nil {
		t.Fatal(err)
	}
	var me struct {
		SSH struct {
			Host     string
			Port     int
			HostKeys []string `json:"host_keys"`
		}
	}
	if err := json.NewDecoder(g.ask("GET", g.URL+"/api/v1/whoami", "").Body).Decode(&me); err != nil || len(me.SSH.HostKeys) == 0 || me.SSH.HostKeys[0] != g.HostKey || fmt.Sprint(me.SSH.Port) != at.Port() || me.SSH.Host != "" {
		t.Errorf("REST says %+v: %v; the gateway printed %s and %s", me, err, g.SSH, g.HostKey)
	}
	if err := os.WriteFile(known, fmt.Appendf(nil, "[%s]:%d %s\n", at.Hostname(), me.SSH.Port, strings.Join(me.SSH.HostKeys, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	ssh := exec.Command("ssh", "-F", "none", "-p", at.Port(), "-i", key, "-o", "IdentitiesOnly=yes", "-o", "IdentityAgent=none", "-o", "BatchMode=yes",
		"-o", "UserKnownHostsFile="+known, "-o", "StrictHostKeyChecking=yes", "job-1@"+at.Hostname(), "echo in $PWD; exit 3")
	out, err := ssh.CombinedOutput()
	if ssh.ProcessState.ExitCode() != 3 || !strings.HasPrefix(string(out), "in /") {
		t.Errorf("%s, %v", out, err)
	}
	if r := g.ask("DELETE", g.URL+"/api/v1/sandboxes/job-1", ""); r.StatusCode != 204 {
		t.Errorf("ending the sandbox: %s", r.Status)
	}
	if err := g.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := g.end(); status != 128+int(syscall.SIGTERM) {
		t.Errorf("the gateway ends with %d", status)
	}
	logs, err := filepath.Glob(filepath.Join(audit, "*"))
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil || !strings.Contains(string(text), `"operation":"ssh.processes/Exec","sandbox":"job-1"`) || !strings.Contains(string(text), `"exit":3`) {
		t.Errorf("the audit log: %s, %v", text, err)
	}
}
