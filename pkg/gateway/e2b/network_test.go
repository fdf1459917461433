package e2b_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// site serves a greeting on the loopback, and returns its port.
func site(t *testing.T) int {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// letOut is a gateway whose tenant acme has these lines in its egress.
func letOut(t *testing.T, lines ...string) *door {
	t.Helper()
	d := newDoor(t)
	d.replaceKeys(fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n    egress:\n      %s\n", sha256.Sum256([]byte(key)), strings.Join(lines, "\n      ")))
	return d
}

// run runs a script in a sandbox, and returns its output.
func (d *door) run(s sandbox, script string) string {
	d.Helper()
	name, _, _ := strings.Cut(s.SandboxID, "--")
	body, _ := json.Marshal(map[string]string{"script": script})
	got := d.send("POST", "/api/v1/sandboxes/"+name+"/exec", string(body), "Authorization: Bearer "+key)
	var out struct{ Stdout, Stderr string }
	if decode(d, got.text, &out); got.StatusCode != http.StatusOK {
		d.Fatalf("%s: %d %s", script, got.StatusCode, got.text)
	}
	return out.Stdout + out.Stderr
}

// What a create allows and denies narrows what its tenant's sandboxes reach, and commands have no other way.
func TestCreateNarrowsWhatASandboxReaches(t *testing.T) {
	seen := contracts.Record(t, "e2b", "HTTP")
	port := site(t)
	d := letOut(t, fmt.Sprintf(`allow_hosts: ["a.test=127.0.0.1:%d", "b.test=127.0.0.1:%d"]`, port, port))
	a := fmt.Sprintf("a.test:%d", port)
	for body, reached := range map[string][]string{
		`{"allow_internet_access":false}`:                                                             nil,
		`{"network":{"denyOut":["0.0.0.0/0","::/0"]}}`:                                                nil,
		fmt.Sprintf(`{"network":{"allowOut":[%q],"denyOut":["0.0.0.0/0"]}}`, a):                       {"a"},
		fmt.Sprintf(`{"allow_internet_access":false,"network":{"allowOut":[%q]}}`, a):                 {"a"},
		fmt.Sprintf(`{"network":{"allowOut":[%q]}}`, a):                                               {"a"},
		`{"network":{"allowOut":["0.0.0.0/0"],"denyOut":["0.0.0.0/0"]},"allow_internet_access":true}`: {"a", "b"},
		`{"network":{"allowOut":[],"denyOut":[]}}`:                                                    {"a", "b"},
	} {
		s := d.create(body)
		for _, host := range []string{"a", "b"} {
			got := d.run(s, fmt.Sprintf("curl -sS http://%s.test:%d/", host, port))
			if want := slices.Contains(reached, host); (got == "hello") != want || !want && !strings.Contains(got, "not among what this sandbox is for") {
				t.Errorf("%s: from %s it gets %q", body, host, got)
			}
		}
		if direct := d.run(s, fmt.Sprintf("curl -sS --noproxy '*' http://127.0.0.1:%d/", port)); len(reached) < 2 && direct == "hello" {
			t.Errorf("%s: it has another way out", body)
		}
		d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNoContent, nil)
	}
	seen.Saw(contracts.Works, "Sandbox.create with allowInternetAccess: false", "Sandbox.create with network.allowOut, denyOut")
}

func TestCreatesBeyondTheirTenantsWayOutAreRefused(t *testing.T) {
	d := letOut(t, `allow_hosts: ["*.example.com", "10.1.0.0/16:5432"]`)
	for host, want := range map[string]int{
		"example.org": http.StatusForbidden, "example.com": http.StatusForbidden, "*": http.StatusForbidden, "8.8.8.8": http.StatusForbidden,
		"10.1.2.3": http.StatusForbidden, "10.0.0.0/8:5432": http.StatusForbidden,
		"https://a.example.com/": http.StatusBadRequest, "": http.StatusBadRequest, "0.0.0.0/00": http.StatusBadRequest,
	} {
		body := fmt.Sprintf(`{"network":{"allowOut":[%q]}}`, host)
		if got := d.call("POST", "/v2/sandboxes", body, want, nil); !strings.Contains(got.text, "network.allowOut: ") {
			t.Errorf("%s: %s", body, got.text)
		}
	}
	var none []any
	if d.call("GET", "/v2/sandboxes", "", http.StatusOK, &none); len(none) != 0 {
		t.Errorf("there are %v", none)
	}
}

// In a mode that leaves commands other ways, who asks for rules does not get a sandbox that ignores them.
func TestCreateDoesNotNarrowWhatOnlyAdvises(t *testing.T) {
	for _, mode := range []string{"advisory", "off"} {
		d := letOut(t, "mode: "+mode)
		if got := d.call("POST", "/v2/sandboxes", `{"allow_internet_access":false}`, http.StatusNotImplemented, nil); !strings.Contains(got.text, "not supported for this tenant: in the mode "+mode) {
			t.Error(got.text)
		}
		d.call("POST", "/v2/sandboxes", `{"allow_internet_access":true}`, http.StatusCreated, nil)
	}
}

func TestSandboxesSayWhatTheyReach(t *testing.T) {
	d := letOut(t, `allow_hosts: ["*.example.com", "10.1.0.0/16:*", "[2001:db8::/32]:*"]`)
	for body, want := range map[string]string{
		`{}`:                              `"network":{"allowPublicTraffic":false}}`,
		`{"allow_internet_access":true}`:  `"allowInternetAccess":true,"network":{"allowPublicTraffic":false}}`,
		`{"allow_internet_access":false}`: `"allowInternetAccess":false,"network":{"denyOut":["0.0.0.0/0"],"allowPublicTraffic":false}}`,
		`{"network":{"allowOut":["A.example.com","10.1.2.3","10.1.2.0/24","2001:db8::1"],"denyOut":["0.0.0.0/0"],"allowPublicTraffic":true}}`: `"network":{"allowOut":["a.example.com","10.1.2.3","10.1.2.0/24","2001:db8::1"],"denyOut":["0.0.0.0/0"],"allowPublicTraffic":true}}`,
	} {
		s := d.create(body)
		if got := d.call("GET", "/sandboxes/"+s.SandboxID, "", http.StatusOK, nil); !strings.Contains(got.text, want) || strings.Contains(got.text, "allowInternetAccess") != strings.Contains(want, "allowInternetAccess") {
			t.Errorf("%s: it is %s, want %s", body, got.text, want)
		}
	}
}
