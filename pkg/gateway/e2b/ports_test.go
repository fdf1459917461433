package e2b_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/contracts"
)

// newMirror returns the port of a server that tells what it sees of a request.
func newMirror(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			if strings.HasPrefix(name, "E2b-") || strings.HasSuffix(name, "-Token") || strings.Contains(r.Header.Get(name), key) {
				fmt.Fprintf(w, "it sees %s ", name)
			}
		}
		fmt.Fprintf(w, "%s by %s with %s", r.URL.Path, r.Host, r.Header.Get("Authorization"))
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// wantServersOwn expects an answer that has no header of the gateway's own.
func wantServersOwn(d *door, got answer) {
	d.Helper()
	for _, header := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cross-Origin-Resource-Policy"} {
		if got.Header.Get(header) != "" || got.Header.Get("Cache-Control") != "private" {
			d.Errorf("an answer of a server has headers of the gateway's: %q", got.Header)
		}
	}
}

// TestServersAreReachedByTheirTokens reaches a server on this machine, which is where a local sandbox has its own.
func TestServersAreReachedByTheirTokens(t *testing.T) {
	seen := contracts.Record(t, "e2b", "HTTP")
	seen.Saw(contracts.Works, "getHost")
	seen.Saw(contracts.NotServed, "@e2b/code-interpreter")
	d := newDoor(t)
	s := d.create(`{}`)
	port := newMirror(t)
	name, _, _ := strings.Cut(s.SandboxID, "--")
	full, short, traffic := "Host: "+port+"-"+s.SandboxID+".sandboxes.test", "Host: "+port+"-"+name+".sandboxes.test", "E2b-Traffic-Access-Token: "+s.TrafficAccessToken
	byHeaders := []string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: " + port}
	for _, c := range []struct {
		headers []string
		status  int
		want    string
	}{
		{[]string{full, traffic}, http.StatusOK, "/at by " + strings.TrimPrefix(full, "Host: ")},
		{[]string{short, traffic}, http.StatusOK, "/at by " + strings.TrimPrefix(short, "Host: ")},
		{append(byHeaders, "X-Access-Token: "+s.EnvdAccessToken), http.StatusOK, "/at by"},
		{append(byHeaders, traffic), http.StatusOK, "/at by"},
		{[]string{full, traffic, "Authorization: Bearer " + key, "X-Api-Key: " + key}, http.StatusOK, " with "},
		{[]string{full, traffic, "Authorization: Bearer its own"}, http.StatusOK, " with Bearer its own"},
		{[]string{full}, http.StatusUnauthorized, ""},
		{[]string{full, "X-Access-Token: " + s.EnvdAccessToken}, http.StatusUnauthorized, ""}, // a server's own header
		{[]string{full, "E2b-Traffic-Access-Token: x"}, http.StatusUnauthorized, `"code":401`},
		{[]string{strings.Replace(full, "acme", "other", 1), traffic}, http.StatusUnauthorized, ""},
		{[]string{strings.Replace(full, name, "missing", 1), traffic}, http.StatusUnauthorized, ""},
		{byHeaders, http.StatusUnauthorized, ""},
		// The token of visitors opens no envd, whatever header has it.
		{append(byHeaders[:1:1], "E2b-Sandbox-Port: 49983", traffic), http.StatusUnauthorized, `"code":401`},
		{append(byHeaders[:1:1], "E2b-Sandbox-Port: 49983", "X-Access-Token: "+s.TrafficAccessToken), http.StatusUnauthorized, `"code":401`},
		{[]string{"Host: 49983-" + s.SandboxID + ".sandboxes.test", traffic}, http.StatusUnauthorized, `"code":401`},
		{append(byHeaders, "X-Access-Token: "+s.TrafficAccessToken), http.StatusUnauthorized, `"code":401`},
		{[]string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: 0", traffic}, http.StatusUnauthorized, ""},
		{[]string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: 99999", traffic}, http.StatusUnauthorized, ""},
		{[]string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: 1", traffic}, http.StatusBadGateway, "nothing listens at port 1"},
		{[]string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: 49999", "X-Access-Token: " + s.EnvdAccessToken}, http.StatusNotFound, "the code interpreter is not supported"},
		{[]string{"Host: 49999-" + s.SandboxID + ".sandboxes.test", "X-Access-Token: " + s.EnvdAccessToken}, http.StatusNotFound, "the code interpreter is not supported"},
	} {
		got := d.send("GET", "/at", "", c.headers...)
		if got.StatusCode != c.status || !strings.Contains(got.text, c.want) || strings.Contains(got.text, "it sees") {
			t.Errorf("%q: %d %s, want %d %s", c.headers, got.StatusCode, got.text, c.status, c.want)
		}
	}
	if got := d.send("GET", "/files?path=x&signature=y", "", full, "E2b-Traffic-Access-Token: x"); got.StatusCode != http.StatusUnauthorized || !strings.Contains(got.text, `"code":401`) {
		t.Errorf("a path of envd's: %d %s", got.StatusCode, got.text)
	}
	wantServersOwn(d, d.send("GET", "/at", "", full, traffic))
	for host, status := range map[string]int{"49983-" + s.SandboxID: http.StatusNoContent, "49983-" + name: http.StatusNoContent, "49983-missing--acme": http.StatusUnauthorized} {
		if got := d.send("GET", "/health", "", "Host: "+host+".sandboxes.test", "X-Access-Token: "+s.EnvdAccessToken); got.StatusCode != status {
			t.Errorf("envd at %s: %d %s", host, got.StatusCode, got.text)
		}
	}
	d.call("DELETE", "/sandboxes/"+s.SandboxID, "", http.StatusNoContent, nil)
	got := d.send("GET", "/at", "", full, traffic)
	if got.StatusCode != http.StatusBadGateway || !strings.Contains(got.text, `"code":502`) || got.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("in a sandbox that is not there: %d %s %q", got.StatusCode, got.text, got.Header)
	}
}

func TestServerAtAPublicPortGetsNoToken(t *testing.T) {
	d := newDoor(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "token %q", r.Header.Get("X-Access-Token"))
	}))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d.send("POST", "/api/v1/sandboxes", `{"id":"open","public_ports":[`+port+`]}`, "Authorization: Bearer "+key)
	var s sandbox
	d.call("POST", "/v2/sandboxes/open/connect", "", http.StatusOK, &s)
	for token, want := range map[string]string{s.EnvdAccessToken: `token ""`, "its own": `token "its own"`} {
		got := d.send("GET", "/", "", "Host: "+port+"-open--acme.sandboxes.test", "X-Access-Token: "+token)
		if got.text != want {
			t.Errorf("with %s: %d %s, want %s", token, got.StatusCode, got.text, want)
		}
	}
}

func TestWhoAsksForPublicTrafficHasAllPortsPublicAndNothingElse(t *testing.T) {
	d := newDoor(t)
	contracts.Record(t, "e2b", "HTTP").Saw(contracts.Works, "Sandbox.create with network.allowPublicTraffic")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{
		`{"network":{"allowPublicTraffic":true}}`:  http.StatusOK,
		`{"network":{"allowPublicTraffic":false}}`: http.StatusUnauthorized,
		`{"network":{}}`: http.StatusUnauthorized,
	} {
		s := d.create(body)
		if got := d.send("GET", "/", "", "Host: "+port+"-"+s.SandboxID+".sandboxes.test"); got.StatusCode != want || (got.text == "served") != (want == http.StatusOK) {
			t.Errorf("%s: %d %s, want %d", body, got.StatusCode, got.text, want)
		}
		if got := d.send("GET", "/files?path=x", "", "Host: 49983-"+s.SandboxID+".sandboxes.test"); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: without a token envd answers %d %s", body, got.StatusCode, got.text)
		}
		if got := d.send("GET", "/", "", "E2b-Sandbox-Id: "+s.SandboxID, "E2b-Sandbox-Port: "+port); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: without a token, by headers: %d %s", body, got.StatusCode, got.text)
		}
	}
}

func TestPagesMayBringTheTokenOfVisitors(t *testing.T) {
	d := newDoor(t)
	s := d.create(`{}`)
	ask := func(path, header string) answer {
		return d.send("OPTIONS", path, "", "Host: 8080-"+s.SandboxID+".sandboxes.test", "Origin: https://page.test", "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: "+header)
	}
	for _, path := range []string{"/at", "/sandboxes"} {
		got := ask(path, "e2b-traffic-access-token")
		if got.StatusCode != http.StatusNoContent || got.Header.Get("Access-Control-Allow-Origin") != "*" ||
			got.Header.Get("Access-Control-Allow-Headers") != "e2b-traffic-access-token" || !strings.Contains(got.Header.Get("Access-Control-Allow-Methods"), "PUT") {
			t.Errorf("%s: %d %q", path, got.StatusCode, got.Header)
		}
		if got := ask(path, "x-other"); got.StatusCode != http.StatusUnauthorized || got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s, without the token: %d %q", path, got.StatusCode, got.Header)
		}
	}
}
