package gateway_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
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
