package egress

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestNamedRulesAllowTheirHostsAlone(t *testing.T) {
	for _, c := range []struct {
		rule, host string
		port       int
		want       bool
	}{
		{"@vscode", "update.code.visualstudio.com", 443, true},
		{"@vscode", "UPDATE.code.visualstudio.com.", 443, true},
		{"@vscode", "update.code.visualstudio.com", 80, false},
		{"@vscode", "update.code.visualstudio.com", 22, false},
		{"@vscode", "redhat.gallery.vsassets.io", 443, true},
		{"@vscode", "gallery.vsassets.io", 443, false},
		{"@vscode", "evilgallery.vsassets.io", 443, false},
		{"@vscode", "github.com", 443, false},
		{"@zed", "github.com", 443, true},
		{"@vscode", "vscode", 443, false},
		{"@vscode", "127.0.0.1", 443, false},
	} {
		r := mustRule(t, c.rule)
		if got := r.Matches(c.host, c.port); got != c.want {
			t.Errorf("%s with %s:%d: %v", c.rule, c.host, c.port, got)
		}
		if r.String() != c.rule {
			t.Errorf("%s is printed as %s", c.rule, r)
		}
	}
	for _, text := range []string{"@", "@nothing", "@vscode:443", "@vscode=10.0.0.1", "@VSCODE", "@vscode,@zed", "a@vscode", "*@vscode"} {
		if r, err := ParseRule(text); err == nil {
			t.Errorf("%q is taken for %v", text, r)
		}
	}
	_, err := ParseRule("@nothing")
	if err == nil || !strings.Contains(err.Error(), "@cursor, @jetbrains, @vscode, @vscodium, @windsurf, @zed") {
		t.Errorf("%v", err)
	}
}

func TestNamedRulesNarrowAndAreNarrowed(t *testing.T) {
	for _, c := range []struct {
		allow, rule string
		want        bool
	}{
		{"@vscode", "@vscode", true},
		{"@vscode", "update.code.visualstudio.com:443", true},
		{"@vscode", "update.code.visualstudio.com", false}, // it has port 80, too
		{"@vscode", "*.gallery.vsassets.io:443", true},
		{"@vscode", "*.vsassets.io:443", false},
		{"@vscode", "@zed", false},
		{"zed.dev *.zed.dev github.com *.githubusercontent.com", "@zed", true},
		{"zed.dev *.zed.dev github.com objects.githubusercontent.com", "@zed", false},
		{"*", "@zed", true},
		{"*:80", "@zed", false},
	} {
		if got := policyOf(t, strings.Fields(c.allow)...).Covers(mustRule(t, c.rule)); got != c.want {
			t.Errorf("%s covers %s: %v", c.allow, c.rule, got)
		}
	}
	p := Policy{Allow: rulesOf(t, "*"), Only: rulesOf(t, "@zed")}
	if !p.Covers(mustRule(t, "zed.dev:443")) || p.Covers(mustRule(t, "example.com")) {
		t.Error("what is narrowed to @zed covers something else")
	}
}

func TestNoSecretIsForANamedRule(t *testing.T) {
	s := Secret{Name: "TOKEN", Value: []byte(theValue), Hosts: mustRules(t, "@zed")}
	if err := CheckSecrets([]Secret{s}); err == nil || !strings.Contains(err.Error(), "name the hosts") {
		t.Errorf("%v", err)
	}
}

// The hosts of a named rule are those of the loopback here, which another rule names, by the port that
// they really have.
func TestADownloadOfAnEditorGoesThroughANamedRule(t *testing.T) {
	const address = "127.83.71.62"
	l, err := net.Listen("tcp", address+":443")
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t)
	hosts := []string{"update.code.visualstudio.com", "vscode.download.prss.microsoft.com", "redhat.gallery.vsassets.io", "github.com", "gallery.vsassets.io"}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == hosts[0] {
			http.Redirect(w, r, "https://"+hosts[1]+r.URL.Path, http.StatusFound)
			return
		}
		fmt.Fprint(w, "the server of ", r.Host)
	}))
	server.Listener.Close()
	server.Listener, server.TLS = l, &tls.Config{Certificates: []tls.Certificate{ca.issue(t, hosts...)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	at := names{}
	for _, host := range hosts {
		at[host] = []string{address}
	}
	f := newFront(t, Options{Resolver: at}, "@vscode", address+":443")
	client := f.client(t, "http", ca.pool)
	client.CheckRedirect = nil // as curl -L does
	get := func(url string) (string, error) {
		response, err := client.Get(url)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body := make([]byte, 100)
		n, _ := response.Body.Read(body)
		return string(body[:n]), nil
	}
	for url, want := range map[string]string{
		"https://update.code.visualstudio.com/commit:abc/server-linux-x64/stable": "the server of vscode.download.prss.microsoft.com",
		"https://redhat.gallery.vsassets.io/extension":                            "the server of redhat.gallery.vsassets.io",
	} {
		if said, err := get(url); said != want {
			t.Errorf("%s: %q, %v", url, said, err)
		}
	}
	if d := f.decision(0); d.Verdict != Allowed || d.Rule != "@vscode" {
		t.Errorf("the decision is %+v", d)
	}
	for _, url := range []string{"https://github.com/a", "https://gallery.vsassets.io/", "https://update.code.visualstudio.com:8443/"} {
		if said, err := get(url); err == nil || !strings.Contains(err.Error(), "denied") {
			t.Errorf("%s: %q, %v", url, said, err)
		}
	}
}

func TestTheDocumentationHasTheHostsOfNamedRules(t *testing.T) {
	text, err := os.ReadFile("../../docs/egress.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range RuleNames() {
		row := "| `@" + name + "` | "
		for _, host := range mustRule(t, "@"+name).Hosts() {
			row += "`" + host + "`, "
		}
		if !strings.Contains(string(text), strings.TrimSuffix(row, ", ")+" |\n") {
			t.Errorf("docs/egress.md has not this row:\n%s |", strings.TrimSuffix(row, ", "))
		}
	}
}
