package e2b

import (
	"bytes"
	"context"
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
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hung is after how long a test takes what it waits for to hang.
const hung = time.Minute

// envdDoor is a gateway over a local launcher, with the face of E2B and a sandbox, job, of the tenant acme.
type envdDoor struct {
	*testing.T
	url     string
	gateway *gateway.Gateway
	id      string // of the sandbox
	token   string // for it
	dir     string // its working directory
}

func newEnvdDoor(t *testing.T, edit ...func(*gateway.Options)) *envdDoor {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	text := fmt.Sprintf("tenants:\n  acme:\n    keys:\n    - sha256: %x\n", sha256.Sum256([]byte("a")))
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := gateway.Options{
		Launcher: launchertest.Local(t), Tenants: &gateway.Keys{Path: keys}, Domain: "sandboxes.test",
		Faces: []gateway.Face{tokens{}, &Face{}},
	}
	for _, edit := range edit {
		edit(&o)
	}
	g := gateway.New(o)
	server := httptest.NewServer(g)
	t.Cleanup(func() {
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &envdDoor{T: t, url: server.URL, gateway: g, id: idOf("acme", "job")}
	var made struct{ Workdir string }
	if err := json.Unmarshal([]byte(d.rest("POST", "/api/v1/sandboxes", `{"id":"job"}`)), &made); err != nil {
		t.Fatal(err)
	}
	d.dir, d.token = made.Workdir, d.rest("GET", "/token/job", "")
	return d
}

// tokens is a face that tells the token for a sandbox of the path's name.
type tokens struct{}

func (tokens) Claim(r *http.Request, _ gateway.Address) (gateway.Credential, bool) {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return gateway.Credential{Token: token}, strings.HasPrefix(r.URL.Path, "/token/")
}

func (tokens) Serve(w http.ResponseWriter, r *http.Request, c *gateway.Call) {
	token, err := c.SandboxToken(filepath.Base(r.URL.Path), scopeEnvd)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, token)
}

func (tokens) Refuse(w http.ResponseWriter, _ *http.Request, why gateway.Failure) {
	http.Error(w, why.Text, why.Status)
}

// rest calls the gateway as the tenant, and returns the answer's text.
func (d *envdDoor) rest(method, path, body string) string {
	d.Helper()
	got := d.send(method, path, body, "Authorization: Bearer a", "Content-Type: application/json", "X-Access-Token: ", headerSandbox+": ")
	if got.StatusCode >= 300 {
		d.Fatalf("%s %s: %d %s", method, path, got.StatusCode, got.text)
	}
	return got.text
}

// reply is what came of a request.
type reply struct {
	*http.Response
	text string
}

// request returns a request to the envd of the sandbox, with headers given as "Name: value". Without a
// value the header is left out.
func (d *envdDoor) request(method, path, body string, headers ...string) *http.Request {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	for _, header := range append([]string{headerSandbox + ": " + d.id, "X-Access-Token: " + d.token}, headers...) {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
		switch {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		}
	}
	return r
}

func (d *envdDoor) send(method, path, body string, headers ...string) reply {
	d.Helper()
	r, err := http.DefaultClient.Do(d.request(method, path, body, headers...))
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return reply{r, string(text)}
}

// call calls a method of envd's that has one answer.
func (d *envdDoor) call(method, body string, headers ...string) reply {
	d.Helper()
	return d.send("POST", "/"+method, body, append([]string{"Content-Type: " + unaryType}, headers...)...)
}

func (d *envdDoor) write(name, text string) {
	d.Helper()
	if err := os.MkdirAll(filepath.Dir(d.path(name)), 0o755); err != nil {
		d.Fatal(err)
	}
	if err := os.WriteFile(d.path(name), []byte(text), 0o644); err != nil {
		d.Fatal(err)
	}
}

// path returns the path of a file in the working directory, which is one of this machine.
func (d *envdDoor) path(name string) string { return filepath.Join(d.dir, name) }

func (d *envdDoor) content(name string) string {
	d.Helper()
	text, err := os.ReadFile(d.path(name))
	if err != nil {
		d.Fatal(err)
	}
	return string(text)
}

// stream calls a method of envd's that answers with events, and sends these to the channel, which is
// closed at the end. Each is its JSON.
func (d *envdDoor) stream(method, body string, headers ...string) <-chan string {
	d.Helper()
	return d.streamWith(d.Context(), method, body, headers...)
}

// streamWith is stream for a caller who leaves when ctx ends.
func (d *envdDoor) streamWith(ctx context.Context, method, body string, headers ...string) <-chan string {
	d.Helper()
	r, err := http.DefaultClient.Do(d.request("POST", "/"+method, envelope(0, body), append(headers, "Content-Type: "+streamType)...).WithContext(ctx))
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(r.Body)
		d.Fatalf("%s: %d %s", method, r.StatusCode, text)
	}
	events := make(chan string, 1000)
	go func() {
		defer close(events)
		head := make([]byte, envelopeHeader)
		for {
			if _, err := io.ReadFull(r.Body, head); err != nil {
				return
			}
			var n uint32
			for _, b := range head[1:] {
				n = n<<8 | uint32(b)
			}
			var message bytes.Buffer
			if _, err := io.CopyN(&message, r.Body, int64(n)); err != nil {
				return
			}
			events <- message.String()
		}
	}()
	return events
}

// expect waits for an event that has the text, and returns those before it.
func (d *envdDoor) expect(events <-chan string, want string) (before []string) {
	d.Helper()
	for limit := time.After(hung); ; {
		select {
		case e, ok := <-events:
			switch {
			case !ok:
				d.Fatalf("the stream ended before %s, after %q", want, before)
			case strings.Contains(e, want):
				return before
			}
			before = append(before, e)
		case <-limit:
			d.Fatalf("there is no %s, but %q", want, before)
		}
	}
}
