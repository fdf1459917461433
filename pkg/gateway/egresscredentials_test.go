package gateway_test

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

const credentialValue = "hunter2hunter2"

// vault is a gateway whose tenant acme has the credential API_KEY for a site, which other reaches, too.
type vault struct {
	*door
	port         int
	seen         atomic.Value // the last Authorization that the site got
	value, links string       // the files of the value, and of the keys of links
	options      func(*gateway.Options)
}

func newVault(t *testing.T) *vault {
	v := &vault{}
	v.seen.Store("")
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.seen.Store(r.Header.Get("Authorization"))
		fmt.Fprint(w, "hello")
	}))
	t.Cleanup(s.Close)
	v.port = s.Listener.Addr().(*net.TCPAddr).Port
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	dir := t.TempDir()
	v.links = filepath.Join(dir, "links")
	write(t, v.links, strings.Repeat("l", 32))
	v.options = func(o *gateway.Options) {
		o.EgressRoots, o.LinkKeys, o.Ledger = roots, &gateway.LinkKeys{Path: v.links}, ledger.Files{Dir: filepath.Join(dir, "ledgers")}
	}
	v.door = newDoor(t, v.options)
	v.value = filepath.Join(filepath.Dir(v.keys), "value")
	write(t, v.value, credentialValue+"\n")
	rule := fmt.Sprintf("%q", fmt.Sprintf("example.com=127.0.0.1:%d", v.port))
	v.writeKeys(fmt.Sprintf(`tenants:
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
`, hashOf("a"), rule, v.port, hashOf("o"), rule))
	v.makes("a", `{"id":"job-1"}`)
	return v
}

// call is a script that calls the site with a text as its token.
func (v *vault) call(token, more string) string {
	return fmt.Sprintf(`curl -sS %s -H "Authorization: Bearer %s" https://example.com:%d/`, more, token, v.port)
}

const placeholderOf = "printf %s $API_KEY"

func TestCredentialsOfATenantAreItsOwn(t *testing.T) {
	v := newVault(t)
	v.makes("o", `{"id":"job-1"}`)
	if got := v.run("a", "job-1", v.call("$API_KEY", "")); got != "hello" || v.seen.Load() != "Bearer "+credentialValue {
		t.Errorf("it gets %q; the server saw %q", got, v.seen.Load())
	}
	placeholder := v.run("a", "job-1", placeholderOf)
	if placeholder == "" || v.run("o", "job-1", placeholderOf) != "" {
		t.Errorf("the placeholder is %q", placeholder)
	}
	v.run("o", "job-1", v.call(placeholder, "-k"))
	if got := v.seen.Load(); got != "Bearer "+placeholder {
		t.Errorf("of the other tenant, the server saw %q", got)
	}
	if found := v.run("a", "job-1", "env; cat $SSL_CERT_FILE; cat /proc/[0-9]*/environ 2>/dev/null"); strings.Contains(found, credentialValue) {
		t.Error("the secret is in the sandbox")
	}
}

func TestPlaceholderAndCAAreASandboxesOwn(t *testing.T) {
	v := newVault(t)
	v.makes("a", `{"id":"job-2"}`)
	for what, script := range map[string]string{"placeholder": placeholderOf, "CA": "sed -n '/BEGIN/,$p' $SSL_CERT_FILE | tail -n 12 | cksum"} {
		if one, two := v.run("a", "job-1", script), v.run("a", "job-2", script); one == "" || one == two {
			t.Errorf("the %s of two sandboxes: %q, %q", what, one, two)
		}
	}
}

func TestValueOfACredentialThatChangesIsUsedFromThenOn(t *testing.T) {
	const renewed = "correct-horse-battery"
	v := newVault(t)
	write(t, v.value, renewed)
	eventually(t, "the new value", func() bool {
		v.run("a", "job-1", v.call("$API_KEY", ""))
		return v.seen.Load() == "Bearer "+renewed
	})
}

// Another gateway that goes on has the same placeholders and CA, also when a newer key of links has come.
func TestPlaceholdersOutliveTheirGateway(t *testing.T) {
	v := newVault(t)
	placeholder := v.run("a", "job-1", placeholderOf)
	write(t, v.links, strings.Repeat("n", 32)+"\n"+strings.Repeat("l", 32))
	o := gateway.Options{Launcher: v.gateway.Launcher, Tenants: &gateway.Keys{Path: v.keys}}
	v.options(&o)
	g := gateway.New(o)
	defer g.Close()
	if err := v.gateway.Close(); err != nil {
		t.Error(err)
	}
	direct, err := v.gateway.Launcher.Open(t.Context(), gateway.LauncherID("acme", "job-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	out, err := direct.Command(t.Context(), "sh", "-c", v.call("$API_KEY", "")+"; "+placeholderOf).CombinedOutput()
	if got := string(out); err != nil || placeholder == "" || got != "hello"+placeholder || v.seen.Load() != "Bearer "+credentialValue {
		t.Errorf("by another gateway: %q, %v; the server saw %q", got, err, v.seen.Load())
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
