package e2b_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/test/contracts"
)

func TestBothGenerationsMakeSandboxesAndKillThem(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "Sandbox.create", "getInfo", "kill")
	d := newDoor(t)
	for _, path := range []string{"/sandboxes", "/v2/sandboxes"} {
		var s sandbox
		d.call("POST", path, `{"templateID":"base","timeout":60,"envVars":{"A":"b"},"secure":true}`, http.StatusCreated, &s)
		if !regexp.MustCompile(`^s-[a-z0-9]{26}--acme$`).MatchString(s.SandboxID) || s.TemplateID != "base" || s.EnvdVersion == "" || s.EnvdAccessToken == "" || s.Domain != "sandboxes.test" {
			t.Errorf("%s: %+v", path, s)
		}
		var got struct{ SandboxID, State, EnvdAccessToken string }
		if d.call("GET", "/sandboxes/"+s.SandboxID, "", http.StatusOK, &got); got.SandboxID != s.SandboxID || got.State != "running" || got.EnvdAccessToken != s.EnvdAccessToken {
			t.Errorf("%s: it is %+v", path, got)
		}
		name, _, _ := strings.Cut(s.SandboxID, "--")
		d.call("GET", "/sandboxes/"+name, "", http.StatusOK, nil) // by the tenant's own name
		d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNoContent, nil)
		if got := d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNotFound, nil); !strings.Contains(got.text, `"code":404`) {
			t.Errorf("the second kill: %s", got.text)
		}
	}
}

func TestCreatesThatAreRefused(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.NotServed, "Sandbox.create with network.rules, egressProxy, maskRequestHost, httpsPorts", "Sandbox.create with iam, mcp, volumeMounts")
	d := newDoor(t)
	for body, want := range map[string]string{
		`{"templateID":"missing"}`:                                      `404 there is no template "missing": there are base, python`,
		`{"templateID":"code-interpreter-v1"}`:                          "501 the code interpreter is not supported",
		`{"timeout":0}`:                                                 "400 timeout: 0 is not from 1 to",
		`{"timeout":-1}`:                                                "400 timeout: -1 is not",
		`{"timeout":1e99}`:                                              "400 the body: json",
		`{"timeout":"soon"}`:                                            "400 the body: json",
		`{`:                                                             "400 the body: ",
		`[]`:                                                            "400 the body: json",
		`{"envVars":{"A=B":"c"}}`:                                       `400 envVars: "A=B" cannot be set`,
		`{"envVars":{"A":"\u0000"}}`:                                    `400 envVars: "A" cannot be set`,
		`{"metadata":{"a":1}}`:                                          "400 the body: json",
		`{"allow_internet_access":false}`:                               "501 allow_internet_access: false and network are not supported", // of a tenant without egress
		`{"network":{"allowOut":["8.8.8.8"]}}`:                          "501 allow_internet_access: false and network are not supported",
		`{"network":{"allowOut":[8]}}`:                                  "400 the body: json",
		`{"network":{"rules":{"a.test":[]}}}`:                           "501 network.rules is not supported",
		`{"network":{"egressProxy":{}}}`:                                "501 network.egressProxy is not supported",
		`{"network":{"maskRequestHost":"a"}}`:                           "501 network.maskRequestHost is not supported",
		`{"network":{"httpsPorts":[3000]}}`:                             "501 network.httpsPorts is not supported",
		`{"network":{"denyOut":["8.8.8.8"]}}`:                           "501 network.denyOut of anything but 0.0.0.0/0 is not supported",
		`{"network":{"denyOut":["::/0"]}}`:                              "501 network.denyOut of anything but 0.0.0.0/0 is not supported",
		`{"iam":{"tokens":{}}}`:                                         "501 iam is not supported",
		`{"mcp":{"x":{}}}`:                                              "501 mcp is not supported",
		`{"volumeMounts":[{"name":"a","path":"/a"}]}`:                   "501 volumeMounts is not supported",
		`{"templateID":"python"}`:                                       "400 ", // the local backend has no images
		`{"metadata":{"a b":"` + strings.Repeat("x", 2000) + `"}}`:      "400 metadata: there is too much of it",
		`{"metadata":{"a":"` + strings.Repeat(" ", 1<<20) + `"}}`:       "400 the body has more than 1048576 bytes",
		`{"metadata":{` + strings.TrimSuffix(manyPairs(60), ",") + `}}`: "400 metadata: there is too much of it",
		`{"autoPause":true,"autoResume":{"enabled":true}}`:              "400 ", // nor can it pause
	} {
		status, text, _ := strings.Cut(want, " ")
		got := d.send("POST", "/v2/sandboxes", body, "X-API-KEY: "+key)
		if !strings.HasPrefix(fmt.Sprint(got.StatusCode), status) || !strings.Contains(got.text, `"code":`+status) || !strings.Contains(got.text, strings.ReplaceAll(text, `"`, `\"`)) {
			t.Errorf("%.100s: %d %.300s, want %s", body, got.StatusCode, got.text, want)
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", ""} {
		if got := d.send("POST", "/v2/sandboxes", "{}", "X-API-KEY: "+key, "Content-Type: "+kind); got.StatusCode != http.StatusBadRequest {
			t.Errorf("of the type %q: %d %s", kind, got.StatusCode, got.text)
		}
	}
	var none []any
	if d.call("GET", "/v2/sandboxes", "", http.StatusOK, &none); len(none) != 0 {
		t.Errorf("there are %v", none)
	}
}

// manyPairs returns so many metadata that are labels.
func manyPairs(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(`"n%d":"v",`, i)
	}
	return text
}

func TestWhatIsNotServedIsSaidNotToBeSupported(t *testing.T) {
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.NotServed, "updateNetwork, Volume, Secret, Template")
	d := newDoor(t)
	id := d.create(`{}`).SandboxID
	for _, request := range []string{
		"PUT /sandboxes/" + id + "/network", "GET /volumes", "POST /secrets", "POST /v3/templates", "DELETE /templates/base", "GET /templates/aliases/a", "GET /v2/sandboxes/" + id + "/logs",
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := d.call(method, path, "", http.StatusNotImplemented, nil); !strings.Contains(got.text, "not supported") {
			t.Errorf("%s: %s", request, got.text)
		}
	}
	for _, key := range []string{"", "e2b_00"} {
		if got := d.send("GET", "/v2/sandboxes", "", "X-API-KEY: "+key); got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.text, `"code":401`) {
			t.Errorf("with the key %q: %d %s", key, got.StatusCode, got.text)
		}
	}
	for _, path := range []string{"/health", "/files?path=a", "/process.Process/List", "/v2", "/v2/api/v1/sandboxes"} { // of no sandbox
		if got := d.send("GET", path, "", "X-API-KEY: "+key); got.StatusCode/100 == 2 {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.text)
		}
	}
}

func TestAnothersSandboxIsNotFound(t *testing.T) {
	d := newDoor(t)
	id := d.create(`{}`).SandboxID
	name, _, _ := strings.Cut(id, "--")
	for _, request := range []string{"GET ~", "DELETE ~", "POST ~/timeout", "POST ~/pause", "POST ~/connect", "POST /v2~/connect", "POST ~/resume", "GET ~/metrics"} {
		for _, id := range []string{id, name, name + "--other", "x--acme", "..%2fx", "A"} {
			method, path, _ := strings.Cut(strings.Replace(request, "~", "/sandboxes/"+id, 1), " ")
			got := d.send(method, path, `{"timeout":5}`, "X-API-KEY: "+strange)
			if got.StatusCode != http.StatusNotFound || strings.Contains(got.text, "acme") {
				t.Errorf("%s %s: %d %s", method, path, got.StatusCode, got.text)
			}
		}
	}
	var all []struct{ SandboxID string }
	decode(t, d.send("GET", "/v2/sandboxes", "", "X-API-KEY: "+strange).text, &all)
	if len(all) != 0 {
		t.Errorf("another tenant sees %v", all)
	}
	if got := d.call("GET", "/v2/sandboxes", "", http.StatusOK, &all); len(all) != 1 || got.Header.Get("X-Total-Running") != "1" {
		t.Errorf("its own sees %v: %v", all, got.Header)
	}
}

// acts notes what callers do.
type acts struct {
	mu  sync.Mutex
	all []string
}

func (a *acts) Begin(context.Context, gateway.Act) error { return nil }

func (a *acts) End(_ context.Context, act gateway.Act, o gateway.Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	name, _, _ := strings.Cut(act.Sandbox, "-")
	a.all = append(a.all, fmt.Sprintf("%s %s %s %d %s", act.Tenant, act.Operation, name, o.Status, o.Class))
}

func (a *acts) get() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.all)
}

func TestWhatIsDoneToSandboxesIsObserved(t *testing.T) {
	seen := &acts{}
	d := newDoor(t, func(o *gateway.Options) { o.Observers = []gateway.Observer{seen} })
	path := "/sandboxes/" + d.create(`{}`).SandboxID
	d.call("GET", "/v2/sandboxes", "", http.StatusOK, nil)
	d.call("GET", path+"/metrics", "", http.StatusOK, nil)
	d.call("DELETE", path, "", http.StatusNoContent, nil)
	d.call("DELETE", path, "", http.StatusNotFound, nil)
	d.call("POST", "/v2/sandboxes", `{"timeout":-1}`, http.StatusBadRequest, nil)
	d.call("PUT", path+"/network", "", http.StatusNotImplemented, nil)
	d.send("GET", path, "", "X-API-KEY: x") // is not let in
	want := []string{
		"acme e2b.sandboxes/create s 201 ", "acme e2b.sandboxes/list  200 ", "acme e2b.sandboxes/metrics s 200 ", "acme e2b.sandboxes/kill s 204 ",
		"acme e2b.sandboxes/kill s 404 no_sandbox", "acme e2b.sandboxes/create s 400 invalid", "acme   501 unsupported",
	}
	for end := time.Now().Add(time.Minute); len(seen.get()) < len(want) && time.Now().Before(end); { // an act ends after its answer
		time.Sleep(time.Millisecond)
	}
	if !slices.Equal(seen.get(), want) {
		t.Errorf("%q, want %q", seen.get(), want)
	}
}

func TestMetricsAreOfTheTimesThatAreAskedFor(t *testing.T) {
	d := newDoor(t)
	path := "/sandboxes/" + d.create(`{}`).SandboxID
	now := time.Now().Unix()
	for query, want := range map[string]int{
		fmt.Sprintf("start=%d&end=%d", now, now+600): 1,
		fmt.Sprintf("end=%d", now-600):               0,
		fmt.Sprintf("start=%d", now+600):             0,
	} {
		var seen []any
		if d.call("GET", path+"/metrics?"+query, "", http.StatusOK, &seen); len(seen) != want {
			t.Errorf("of the times %s there are %v, want %d", query, seen, want)
		}
	}
	d.call("GET", path+"/metrics?start=now", "", http.StatusBadRequest, nil)
}
