package gateway_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// What a sandbox tries to reach is in the log of its tenant alone. Of many tries none is lost: those that
// are not told one by one are counted.
func TestTriesOfSandboxesAreInTheAuditLog(t *testing.T) {
	port := site(t)
	out, with := audited(t)
	d := newDoor(t, with)
	d.waysOut(pinned("a.test", port), pinned("o.test", port))
	d.makes("a", `{"id":"job-1"}`)
	d.makes("o", `{"id":"job-1"}`)
	d.run("a", "job-1", get("a.test", port)+"; "+get("b.test", port)+"; curl -sS --socks5-hostname ${HTTP_PROXY#http://} http://c.test/")
	d.run("o", "job-1", get("o.test", port))
	const many = 1000
	began := time.Now()
	d.run("a", "job-1", fmt.Sprintf("curl -sS 'http://many-[1-%d].test/'", many))
	took := time.Since(began).Seconds()
	d.walk(step{"DELETE", "~", "", nil, 204, ""})
	type line struct {
		Type, Sandbox, Verdict, To, Protocol, Rule, Reason string
		Port, Count                                        int
	}
	tries := func(tenant string) (all []line) {
		for _, text := range out.linesOf(t, tenant) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatal(err)
			}
			if l.Type == "try" {
				all = append(all, l)
			}
		}
		return all
	}
	denied := 0
	eventually(t, "all tries of acme", func() bool {
		denied = 0
		for _, l := range tries("acme") {
			if l.Verdict == "denied" {
				denied += max(1, l.Count)
			}
		}
		return denied >= many+2
	})
	all := tries("acme")
	// A hundred lines at once, and then ten a second; and in ten seconds, the first of each of a hundred hosts.
	if denied != many+2 || len(all) > 110+int(20*took)+100 {
		t.Errorf("there are %d denials in %d lines, of %.1f s", denied, len(all), took)
	}
	for i, want := range []line{
		{"try", "job-1", "allowed", "a.test", "http", fmt.Sprintf("a.test=127.0.0.1:%d", port), "", port, 0},
		{"try", "job-1", "denied", "b.test", "http", "", "no rule allows b.test", port, 0},
		{"try", "job-1", "denied", "c.test", "socks5", "", "no rule allows c.test", 80, 0},
	} {
		if all[i] != want {
			t.Errorf("line %d is %+v, want %+v", i, all[i], want)
		}
	}
	if others := tries("other"); len(others) != 1 || others[0].To != "o.test" {
		t.Errorf("the log of the other has %+v", others)
	}
}

// fullDisk fails while it is full.
type fullDisk struct {
	auditText
	full atomic.Bool
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.auditText.Write(p)
}

func TestSandboxesReachNothingWhileTriesCannotBeRecorded(t *testing.T) {
	disk := &fullDisk{}
	port := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/full" {
			disk.full.Store(true)
		}
		fmt.Fprintln(w, "hello")
	})
	log, err := audit.New(audit.Options{Out: disk, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l := launchertest.Local(t)
	d := newDoor(t, func(o *gateway.Options) { o.Launcher, o.Observers = l, []gateway.Observer{log} })
	d.waysOut(pinned("a.test", port), "none")
	d.makes("a", `{"id":"job-1"}`)
	s, err := l.Open(t.Context(), gateway.LauncherID("acme", "job-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	curl := func() string {
		out, _ := s.Command(t.Context(), "sh", "-c", get("a.test", port)).CombinedOutput()
		return string(out)
	}
	disk.full.Store(true)
	curl() // which is found out to be unrecorded
	if got := curl(); !strings.Contains(got, "cannot record") {
		t.Errorf("while nothing can be recorded: %q", got)
	}
	// Nor by a connection that was open before: its third request finds out.
	disk.full.Store(false)
	url := fmt.Sprintf("http://a.test:%d", port)
	out, err := s.Command(t.Context(), "curl", "-sS", "-w", "%{num_connects}\n", url+"/", url+"/full", url+"/", url+"/").CombinedOutput()
	lines := strings.SplitN(string(out), "\n", 7)
	if want := []string{"hello", "1", "hello", "0", "hello", "0"}; len(lines) < 7 || !slices.Equal(lines[:6], want) || !strings.Contains(lines[6], "cannot record") {
		t.Errorf("by a connection that is kept: %q, %v", out, err)
	}
	disk.full.Store(false)
	if got := curl(); !strings.Contains(got, "hello") {
		t.Errorf("when there is room again: %q", got)
	}
	tries := 0
	for _, text := range disk.linesOf(t, "acme") {
		tries += strings.Count(text, `"type":"try"`)
	}
	if tries < 3 {
		t.Errorf("%d lines about tries are there", tries)
	}
}
