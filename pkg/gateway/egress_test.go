package gateway_test

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/audit"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// serveSite serves a site on the loopback, and returns its port.
func serveSite(t *testing.T, h http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// site is one that greets.
func site(t *testing.T) int {
	return serveSite(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello from %s", r.Host) })
}

// waysOut writes a file of keys in which these are the rules of acme and other; "none" is no way out.
func (d *door) waysOut(acme, other string) {
	d.Helper()
	of := func(rules string) string {
		if rules == "none" {
			return ""
		}
		return "    egress:\n      mode: advisory\n      allow_hosts: [" + rules + "]\n"
	}
	d.writeKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %s\n%s  other:\n    keys:\n    - sha256: %s\n%s", hashOf("a"), of(acme), hashOf("o"), of(other)))
}

// pinned is a rule for a site of the tests.
func pinned(name string, port int) string {
	return fmt.Sprintf("%q", fmt.Sprintf("%s=127.0.0.1:%d", name, port))
}

// makes makes a sandbox, which must be made.
func (d *door) makes(token, body string) {
	d.Helper()
	if got := d.send(token, "POST", "/api/v1/sandboxes", body); got.StatusCode != http.StatusCreated {
		d.Fatalf("%s: %d %s", body, got.StatusCode, got.text)
	}
}

// run runs a script in a sandbox, and returns its output.
func (d *door) run(token, name, script string) string {
	d.Helper()
	body, _ := json.Marshal(map[string]string{"script": script})
	got := d.send(token, "POST", "/api/v1/sandboxes/"+name+"/exec", string(body))
	var out struct{ Stdout, Stderr string }
	if err := json.Unmarshal([]byte(got.text), &out); err != nil || got.StatusCode != http.StatusOK {
		d.Fatalf("%s: %d %s", script, got.StatusCode, got.text)
	}
	return out.Stdout + out.Stderr
}

// untilRun waits until a script's output has a text.
func (d *door) untilRun(token, name, script, want string) {
	d.Helper()
	for deadline := time.Now().Add(hung); ; {
		got := d.run(token, name, script)
		if strings.Contains(got, want) {
			return
		}
		if time.Now().After(deadline) {
			d.Fatalf("%s: %q, want %q", script, got, want)
		}
	}
}

func get(name string, port int) string { return fmt.Sprintf("curl -sS http://%s:%d/", name, port) }

func TestSandboxesReachWhatTheirTenantMay(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port), pinned("o.test", port))
	d.makes("a", `{"id":"job-1"}`)
	d.makes("o", `{"id":"job-1"}`)
	for _, test := range []struct{ token, host, want string }{
		{"a", "a.test", fmt.Sprintf("hello from a.test:%d", port)},
		{"a", "o.test", "no rule allows o.test"},
		{"o", "o.test", fmt.Sprintf("hello from o.test:%d", port)},
		{"o", "a.test", "no rule allows a.test"},
	} {
		if got := d.run(test.token, "job-1", get(test.host, port)); !strings.Contains(got, test.want) {
			t.Errorf("%s gets %q from %s, want %q", test.token, got, test.host, test.want)
		}
	}
}

func TestPolicyOfATenantChangesWhileSandboxesRun(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port), "none")
	d.makes("a", `{"id":"job-1"}`)
	d.untilRun("a", "job-1", get("b.test", port), "no rule allows b.test")
	d.waysOut(pinned("b.test", port), "none")
	d.untilRun("a", "job-1", get("b.test", port), "hello from b.test")
	d.untilRun("a", "job-1", get("a.test", port), "no rule allows a.test")
}

func TestCreateNarrowsTheWayOutOfItsTenant(t *testing.T) {
	port := site(t)
	d := newDoor(t)
	d.waysOut(pinned("a.test", port)+","+pinned("b.test", port)+`,"*.c.test"`, "none")
	only := fmt.Sprintf("b.test:%d", port)
	refused := func(token, body string, status int, want string) {
		t.Helper()
		if got := d.send(token, "POST", "/api/v1/sandboxes", body); got.StatusCode != status || !strings.Contains(got.text, want) {
			t.Errorf("%s: %d %s", body, got.StatusCode, got.text)
		}
	}
	refused("a", `{"id":"job-1","allow_hosts":["d.test"]}`, 403, `"d.test\" is not allowed`)
	refused("a", `{"id":"job-1","allow_hosts":["*.test"]}`, 403, `is not allowed`)
	refused("a", `{"id":"job-1","allow_hosts":["c.test"]}`, 403, `is not allowed`)
	refused("a", `{"id":"job-1","allow_hosts":["http://x/"]}`, 422, `not a URL`)
	refused("o", `{"id":"job-1","allow_hosts":["a.test"]}`, 403, `allow_hosts`)
	refused("a", `{"id":"job-1","labels":{"podagent.dev/egress-00":"xx"}}`, 422, `reserved`)
	d.makes("a", fmt.Sprintf(`{"id":"job-1","allow_hosts":[%q]}`, only))
	d.makes("a", `{"id":"job-2","allow_hosts":[]}`)
	d.walk(
		step{"GET", "~", "", nil, 200, `"allow_hosts":\["` + only + `"\]`},
		step{"GET", "/api/v1/sandboxes/job-2", "", nil, 200, `"allow_hosts":\[\]`},
	)
	for name, want := range map[string]string{"job-1": "hello from b.test", "job-2": "not among what this sandbox is for"} {
		if got := d.run("a", name, get("b.test", port)); !strings.Contains(got, want) {
			t.Errorf("%s gets %q", name, got)
		}
	}
	if got := d.run("a", "job-1", get("a.test", port)); !strings.Contains(got, "not among what this sandbox is for") {
		t.Errorf("it gets %q", got)
	}
	d.waysOut(pinned("a.test", port), "none") // what the tenant may no longer, the sandbox may not either
	d.untilRun("a", "job-1", get("b.test", port), "no rule allows b.test")
}

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
	const many = 300
	d.run("a", "job-1", fmt.Sprintf("curl -sS 'http://many-[1-%d].test/'", many))
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
	if denied != many+2 || len(all) > many/2 {
		t.Errorf("there are %d denials in %d lines", denied, len(all))
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

func TestConnectionsOfATenantAreBounded(t *testing.T) {
	here, leave := make(chan struct{}), make(chan struct{})
	port := serveSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stay" {
			here <- struct{}{}
			<-leave
		}
		fmt.Fprint(w, "hello")
	})
	d := newDoor(t)
	d.allow(fmt.Sprintf("    egress:\n      mode: advisory\n      connections: 2\n      allow_hosts: [%s]", pinned("a.test", port)))
	d.makes("a", `{"id":"job-1"}`)
	d.makes("a", `{"id":"job-2"}`)
	for _, name := range []string{"job-1", "job-2"} {
		got := d.send("a", "POST", "/api/v1/sandboxes/"+name+"/exec", fmt.Sprintf(`{"script":"curl -sS http://a.test:%d/stay","detach":true}`, port))
		if got.StatusCode/100 != 2 {
			t.Fatal(got.text)
		}
		<-here
	}
	if got := d.run("a", "job-1", get("a.test", port)); !strings.Contains(got, "as many connections open as they may") {
		t.Errorf("one too many gets %q", got)
	}
	close(leave)
	d.untilRun("a", "job-1", get("a.test", port), "hello")
}

// A credential is its tenant's alone, and in no sandbox. Its placeholder and the CA are a sandbox's own,
// and the same whichever gateway lets it out.
func TestCredentialsOfATenantAreItsOwn(t *testing.T) {
	const secret, renewed = "hunter2hunter2", "correct-horse-battery"
	var seen atomic.Value
	seen.Store("")
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Get("Authorization"))
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(s.Close)
	port := s.Listener.Addr().(*net.TCPAddr).Port
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	dir := t.TempDir()
	links := filepath.Join(dir, "links")
	write(t, links, strings.Repeat("l", 32))
	lead := func(o *gateway.Options) {
		o.EgressRoots, o.LinkKeys, o.Ledger = roots, &gateway.LinkKeys{Path: links}, ledger.Files{Dir: filepath.Join(dir, "ledgers")}
	}
	d := newDoor(t, lead)
	value := filepath.Join(filepath.Dir(d.keys), "value")
	write(t, value, secret+"\n")
	rule := fmt.Sprintf("%q", fmt.Sprintf("example.com=127.0.0.1:%d", port))
	d.writeKeys(fmt.Sprintf(`tenants:
  acme:
    keys:
    - sha256: %s
    egress:
      mode: advisory
      allow_hosts: [%s]
      credentials: [{name: API_KEY, hosts: ["example.com:%d"], value_file: value}]
  other:
    keys:
    - sha256: %s
    egress: {mode: advisory, allow_hosts: [%s]}
`, hashOf("a"), rule, port, hashOf("o"), rule))
	d.makes("a", `{"id":"job-1"}`)
	d.makes("a", `{"id":"job-2"}`)
	d.makes("o", `{"id":"job-1"}`)
	call := func(more string) string { return fmt.Sprintf("curl -sS %s https://example.com:%d/", more, port) }
	const auth = `-H "Authorization: Bearer $API_KEY"`
	d.untilRun("a", "job-1", call(auth), "hello")
	if got := seen.Load(); got != "Bearer "+secret {
		t.Errorf("the server saw %q", got)
	}
	placeholder := d.run("a", "job-1", "printf %s $API_KEY")
	if placeholder == "" || d.run("a", "job-2", "printf %s $API_KEY") == placeholder || d.run("o", "job-1", "printf %s $API_KEY") != "" {
		t.Errorf("the placeholder is %q", placeholder)
	}
	ofCA := "sed -n '/BEGIN/,$p' $SSL_CERT_FILE | tail -n 12 | cksum"
	if d.run("a", "job-1", ofCA) == d.run("a", "job-2", ofCA) {
		t.Error("two sandboxes have the same CA")
	}
	d.run("o", "job-1", call("-k -H 'Authorization: Bearer "+placeholder+"'"))
	if got := seen.Load(); got != "Bearer "+placeholder {
		t.Errorf("of the other tenant, the server saw %q", got)
	}
	if found := d.run("a", "job-1", "env; cat $SSL_CERT_FILE; cat /proc/[0-9]*/environ 2>/dev/null"); strings.Contains(found, secret) {
		t.Error("the secret is in the sandbox")
	}
	write(t, value, renewed)
	eventually(t, "the new value", func() bool {
		d.run("a", "job-1", call(auth))
		return seen.Load() == "Bearer "+renewed
	})
	write(t, links, strings.Repeat("n", 32)+"\n"+strings.Repeat("l", 32)) // the key is turned
	g := gateway.New(func() gateway.Options {
		o := gateway.Options{Launcher: d.gateway.Launcher, Tenants: &gateway.Keys{Path: d.keys}}
		lead(&o)
		return o
	}())
	defer g.Close()
	if err := d.gateway.Close(); err != nil {
		t.Error(err)
	}
	direct, err := d.gateway.Launcher.Open(t.Context(), gateway.LauncherID("acme", "job-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	seen.Store("")
	out, err := direct.Command(t.Context(), "sh", "-c", call(auth)+"; printf %s $API_KEY").CombinedOutput()
	if got := string(out); err != nil || got != "hello"+placeholder || seen.Load() != "Bearer "+renewed {
		t.Errorf("by another gateway: %q, %v; the server saw %q", got, err, seen.Load())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
