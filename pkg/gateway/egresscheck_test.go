package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/gateway"
)

// loadEgress loads a file of keys whose tenant acme has this egress.
func loadEgress(t *testing.T, text string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(path, []byte(keysOf("a")+"    egress: {"+text+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return (&gateway.Keys{Path: path}).Load()
}

func TestEgressOfATenantIsCheckedWhenItsFileIsLoaded(t *testing.T) {
	for text, want := range map[string]string{
		"mode: strict":                                           `mode: "strict" is not`,
		"require: advisory":                                      `require: "advisory" is not`,
		"mode: advisory, require: landlock":                      "require: the mode advisory never comes up to landlock",
		"mode: landlock, require: network":                       "require: the mode landlock never comes up to network",
		"mode: off, require: landlock":                           "require: the mode off never comes up to landlock",
		"local_ports: [70000]":                                   "local_ports",
		"local_ports: [0]":                                       "local_ports has 0: ports are 1 to 65535",
		"local_ports: [80, 80]":                                  "local_ports has 80 twice",
		"local_ports: [80], mode: network":                       "local_ports are for the level landlock, which the mode network never has",
		"local_ports: [80], mode: advisory":                      "local_ports are for the level landlock",
		"local_ports: [" + ports(65) + "]":                       "local_ports are 65: at most 64",
		"allow_hosts: ['https://a/']":                            "not a URL",
		"allow_hosts: ['']":                                      "no host",
		"allow_hosts: [" + strings.Repeat("a.test,", 1001) + "]": "allow_hosts has 1001 rules: the most is 1000",
		"connections: -1":                                        "negative",
		"hosts: [a.test]":                                        `unknown field "hosts"`,
	} {
		err := loadEgress(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `tenant "acme": egress: `) && !strings.Contains(err.Error(), "JSON") {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// ports returns so many ports, with commas between them.
func ports(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(1000+i))
	}
	return strings.Join(all, ",")
}

func TestCredentialsOfATenantAreCheckedWhenItsFileIsLoaded(t *testing.T) {
	good := "name: A, hosts: [a.test], value_file: a"
	for text, want := range map[string]string{
		"{name: A, hosts: [a.test]}":                                                    `"A": it has no value_file`,
		"{name: A, value_file: a}":                                                      `"A": it has no hosts`,
		"{name: 'a b', hosts: [a.test], value_file: a}":                                 `"a b": its name must be that of an environment variable`,
		"{name: A, hosts: ['*'], value_file: a}":                                        `"A": it would go to every host`,
		"{name: A, hosts: [c.test], value_file: a}":                                     `"A": its host c.test is one that no rule of allow_hosts allows`,
		"{name: A, hosts: ['a.test:8443'], value_file: a}":                              `"A": its host a.test:8443 is one that no rule`,
		"{name: A, hosts: ['*.test'], value_file: a}":                                   `"A": its host *.test is one that no rule`,
		"{name: LD_PRELOAD, hosts: [a.test], value_file: a}":                            "LD_PRELOAD has another meaning",
		"{" + good + ", env: HTTP_PROXY}":                                               "HTTP_PROXY has another meaning",
		"{" + good + ", env: 'a-b'}":                                                    `"a-b" cannot be the name of an environment variable`,
		"{" + good + ", file: relative}":                                                "not an absolute path",
		"{" + good + ", prefix: 'a b'}":                                                 "its prefix may have",
		"{" + good + ", headers: ['a b']}":                                              "cannot be a header",
		"{" + good + ", value: secret}":                                                 "unknown field",
		"{" + good + "}, {" + good + "}":                                                "the name A is that of another secret, A",
		"{" + good + "}, {name: B, env: A, hosts: [a.test], value_file: b}":             "the variable A is that of another secret, A",
		"{" + good + ", env: C}, {name: B, env: C, hosts: [a.test], value_file: b}":     "the variable C is that of another secret, A",
		"{" + good + ", file: /f}, {name: B, file: /f, hosts: [a.test], value_file: b}": "the file /f is that of another secret, A",
	} {
		err := loadEgress(t, "allow_hosts: [a.test, 'b.test:443'], credentials: ["+text+"]")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, host := range []string{"a.test", "'a.test:443'", "b.test", "'b.test:443'", "10.0.0.1", "'[fd00::1]:443'", "x.c.test", "'*.d.c.test'"} {
		if err := loadEgress(t, "allow_hosts: [a.test, 'b.test:443', '10.0.0.0/8:443', 'fd00::/8', '*.c.test'], credentials: [{name: A, hosts: ["+host+"], value_file: a}]"); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// unchecked are tenants whose policies nobody has checked.
type unchecked struct {
	gateway.Tenants
	egress *gateway.Egress
}

func (u unchecked) Policy(context.Context, string) (gateway.Policy, error) {
	return gateway.Policy{Egress: u.egress}, nil
}

func TestSandboxesOfATenantWhoseEgressHasAMistakeAreNotLetOut(t *testing.T) {
	port := site(t)
	rule, err := egress.ParseRule(fmt.Sprintf("a.test=127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	e := &gateway.Egress{Mode: "advisory", AllowHosts: []egress.Rule{rule}, Credentials: []gateway.EgressCredential{{Name: "A", Value: []byte("hunter2hunter2")}}}
	d := newDoor(t, func(o *gateway.Options) { o.Tenants = unchecked{o.Tenants, e} })
	d.makes("a", `{"id":"job-1"}`)
	if got := d.run("a", "job-1", "curl -sS -x ${HTTP_PROXY:-http://none.invalid} "+fmt.Sprintf("http://a.test:%d/", port)); strings.Contains(got, "hello") {
		t.Errorf("it gets %q", got)
	}
	if got := d.send("a", "GET", "/api/v1/sandboxes/job-1", ""); got.StatusCode != http.StatusOK {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
}
