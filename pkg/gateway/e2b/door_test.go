package e2b_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/e2b"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

// The keys of the tenants acme, which has two, and other.
const (
	key      = "e2b_0a"
	otherKey = "e2b_0b"
	strange  = "e2b_0c"
)

// door is a gateway with this face over a local launcher.
type door struct {
	*testing.T
	url  string
	keys string
}

func newDoor(t *testing.T, edit ...func(*gateway.Options)) *door {
	t.Helper()
	d := &door{T: t, keys: filepath.Join(t.TempDir(), "keys.yaml")}
	d.writeKeys(key, otherKey)
	o := gateway.Options{
		Launcher: launchertest.Local(t), Tenants: &gateway.Keys{Path: d.keys}, Domain: "sandboxes.test",
		Faces: []gateway.Face{&e2b.Face{Templates: map[string]e2b.Template{"python": {Image: "python:3.14"}}}},
	}
	for _, edit := range edit {
		edit(&o)
	}
	return d.beside(o)
}

// beside returns another gateway over the same sandboxes.
func (d *door) beside(o gateway.Options) *door {
	g := gateway.New(o)
	server := httptest.NewServer(g)
	d.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			d.Error(err)
		}
	})
	return &door{d.T, server.URL, d.keys}
}

// writeKeys makes these the keys of acme.
func (d *door) writeKeys(keys ...string) {
	d.Helper()
	text := fmt.Sprintf("tenants:\n  other:\n    keys:\n    - sha256: %x\n  acme:\n    images: [\"python:*\"]\n    keys:\n", sha256.Sum256([]byte(strange)))
	for _, key := range keys {
		text += fmt.Sprintf("    - sha256: %x\n", sha256.Sum256([]byte(key)))
	}
	d.replaceKeys(text)
}

// replaceKeys makes this the file of keys.
func (d *door) replaceKeys(text string) {
	d.Helper()
	next := d.keys + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		d.Fatal(err)
	}
	if err := os.Rename(next, d.keys); err != nil {
		d.Fatal(err)
	}
}

// answer is what came of a request.
type answer struct {
	*http.Response
	text string
}

// send sends a request, with headers given as "Name: value".
func (d *door) send(method, path, body string, headers ...string) answer {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	r, err := http.DefaultTransport.RoundTrip(req) // which follows nothing
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return answer{r, string(text)}
}

// call sends a request to the control plane as acme, and decodes the answer, which must have a status.
func (d *door) call(method, path, body string, status int, out any) answer {
	d.Helper()
	got := d.send(method, path, body, "X-API-KEY: "+key)
	if got.StatusCode != status {
		d.Fatalf("%s %s %s: %d %s, want %d", method, path, body, got.StatusCode, got.text, status)
	}
	if out != nil {
		decode(d, got.text, out)
	}
	return got
}

func decode(t testing.TB, text string, out any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), out); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// sandbox is what a create or a connect answers.
type sandbox struct{ SandboxID, TemplateID, EnvdVersion, EnvdAccessToken, TrafficAccessToken, Domain string }

// create makes a sandbox.
func (d *door) create(body string) (s sandbox) {
	d.Helper()
	d.call("POST", "/v2/sandboxes", body, http.StatusCreated, &s)
	return s
}

// envd sends a request to a sandbox's envd.
func (d *door) envd(s sandbox, method, path, body string, headers ...string) answer {
	d.Helper()
	return d.send(method, path, body, append([]string{"E2b-Sandbox-Id: " + s.SandboxID, "E2b-Sandbox-Port: 49983", "X-Access-Token: " + s.EnvdAccessToken}, headers...)...)
}
