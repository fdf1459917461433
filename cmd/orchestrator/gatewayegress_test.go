//go:build linux

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/podagent/podagent/pkg/launcher"
)

// egressOf returns the flags for the way out that a gateway has with these arguments.
func egressOf(t *testing.T, args ...string) *egressFlags {
	t.Helper()
	cmd, e := &cobra.Command{}, &egressFlags{}
	e.defineLaunch(cmd)
	e.defineServe(cmd)
	e.always = true
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCheckOfTheWayOut(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	tenant := "tenants: {acme: {keys: [{sha256: " + strings.Repeat("ab", 32) + "}]%s}}"
	credential := ", egress: {allow_hosts: [a.test], credentials: [{name: A, hosts: [a.test], value_file: %s}]}"
	for name, text := range map[string]string{
		"none": fmt.Sprintf(tenant, ""), "broken": "x",
		"good": fmt.Sprintf(tenant, fmt.Sprintf(credential, "value")), "lost": fmt.Sprintf(tenant, fmt.Sprintf(credential, "nowhere")),
		"value": "hunter2hunter2\n", "links": strings.Repeat("l", 32),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := &app{}
	a.backend.Value = onThisHost
	allow := "--allow-host=a.test"
	for _, test := range []struct {
		keys, links, flag string
		verdict           launcher.Verdict
		says              string
	}{
		{"", "", "", launcher.NotChecked, "without --keys"},
		{in("none"), "", "", launcher.NotChecked, "no tenant has egress"},
		{in("broken"), "", "", launcher.NotChecked, "mistakes"},
		{in("lost"), in("links"), "", launcher.Failed, `"acme": credential "A"`},
		{in("good"), "", "", launcher.Warned, "another gateway goes on"},
		{in("good"), in("links"), "--egress-private=10.96.0.0/12", launcher.Passed, "can be used"},
		{in("good"), in("links"), allow, launcher.Failed, "the file says what"},
		{"", "", allow, launcher.Warned, "another gateway goes on"},
		{"", in("links"), allow, launcher.Passed, "can be used"},
		{"", in("links"), "--credential=A=file:" + in("value") + "@a.test", launcher.Passed, "can be used"},
		{"", in("links"), "--credential=A=file:" + in("value") + "@*", launcher.Failed, "every host"},
		{"", in("links"), "--credential=A=file:" + in("nowhere") + "@a.test", launcher.Failed, "nowhere"},
	} {
		o := &gatewayFlags{keys: test.keys, linkKeys: test.links, egress: egressOf(t)}
		if test.flag != "" {
			o.egress = egressOf(t, test.flag)
		}
		f := o.checkEgress(t.Context(), a)
		text := f.Detail
		if f.Err != nil {
			text += f.Err.Error()
		}
		if f.Verdict != test.verdict || !strings.Contains(text, test.says) {
			t.Errorf("%+v: %+v", test, f)
		}
	}
}

// exec runs a script in a sandbox of a gateway, and returns its output.
func (g *gatewayProgram) exec(id, script string) string {
	g.Helper()
	body, _ := json.Marshal(map[string]string{"script": script})
	text, _ := io.ReadAll(g.ask("POST", g.URL+sandboxesPath+"/"+id+"/exec", string(body), "Content-Type: application/json").Body)
	var out struct{ Stdout, Stderr string }
	if err := json.Unmarshal(text, &out); err != nil {
		g.Fatalf("%s: %s", script, text)
	}
	return out.Stdout + out.Stderr
}

// A gateway with one tenant takes the flags of the other verbs for the way out.
func TestGatewayLetsTheSandboxesOfItsOneTenantOut(t *testing.T) {
	t.Parallel()
	const value = "hunter2hunter2"
	site := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "authorized: %v", r.Header.Get("Authorization") == "Bearer "+value)
	}))
	defer site.Close()
	port := site.Listener.Addr().(*net.TCPAddr).Port
	dir := t.TempDir()
	roots, secret := filepath.Join(dir, "roots"), filepath.Join(dir, "secret")
	for path, data := range map[string][]byte{
		roots: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: site.Certificate().Raw}), secret: []byte(value + "\n"),
	} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := newCLI(t)
	c.env = append(slices.Clip(c.env), "SSL_CERT_FILE="+roots)
	g := c.gateway("--egress", "advisory", "--allow-host", fmt.Sprintf("example.com=127.0.0.1:%d", port), "--credential", fmt.Sprintf("API_KEY=file:%s@example.com:%d", secret, port))
	if r := g.ask("POST", g.URL+sandboxesPath, `{"id":"job-1"}`, "Content-Type: application/json"); r.StatusCode != http.StatusCreated {
		t.Fatal(r.Status)
	}
	defer g.ask("DELETE", g.URL+sandboxesPath+"/job-1", "")
	if got := g.exec("job-1", fmt.Sprintf(`curl -sS -H "Authorization: Bearer $API_KEY" https://example.com:%d/; env`, port)); !strings.HasPrefix(got, "authorized: true") || strings.Contains(got, value) {
		t.Errorf("it gets %q", got)
	}
	if got := g.exec("job-1", "curl -sS http://other.test/"); !strings.Contains(got, "no rule allows other.test") {
		t.Errorf("of another host, it gets %q", got)
	}
}
