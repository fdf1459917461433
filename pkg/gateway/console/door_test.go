package console_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/gateway/console"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/ledger"
)

// hung bounds what must come.
const hung = 5 * time.Minute

func TestMain(m *testing.M) { os.Exit(launchertest.Main(m)) }

const (
	host  = "gateway.example.com"
	token = "the-token-of-acme"
)

// door is a gateway with a console, over a local launcher.
type door struct {
	*testing.T
	console *console.Console
	origin  string // at which a browser on this machine finds it
	code    *console.Code
	linkKey string // the file of link keys
	ledger  string // its directory
	tenant  gateway.OneTenant
	server  *httptest.Server
}

func newDoor(t *testing.T, edit ...func(*door)) *door {
	t.Helper()
	d := &door{
		T: t, linkKey: filepath.Join(t.TempDir(), "links"), ledger: filepath.Join(t.TempDir(), "ledger"),
		tenant: gateway.OneTenant{Name: "acme", Token: token},
	}
	for _, edit := range edit {
		edit(d)
	}
	d.writeKeys(strings.Repeat("k", 32))
	d.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.console.ServeHTTP(w, r) }))
	_, port, _ := net.SplitHostPort(d.server.Listener.Addr().String())
	d.origin = console.LocalOrigin(port)
	d.code = console.NewCode(token)
	d.console = console.New(console.Options{Gateway: d.newGateway("sandboxes.localhost:" + port), Local: d.origin, Code: d.code})
	d.server.Start()
	t.Cleanup(func() {
		d.server.CloseClientConnections()
		d.server.Close()
	})
	return d
}

// newGateway returns another gateway with the same keys.
func (d *door) newGateway(domain string) *gateway.Gateway {
	g := gateway.New(gateway.Options{
		Ledger: ledger.Files{Dir: d.ledger}, Launcher: launchertest.Local(d.T), Tenants: d.tenant, Domain: domain, LinkKeys: &gateway.LinkKeys{Path: d.linkKey},
		Base: launcher.Spec{Env: []string{"HOME=" + d.TempDir()}}, // without a user's own files for shells
	})
	d.Cleanup(func() {
		if err := g.Close(); err != nil {
			d.Error(err)
		}
	})
	return g
}

func (d *door) writeKeys(keys ...string) {
	d.Helper()
	if err := os.WriteFile(d.linkKey, []byte(strings.Join(keys, "\n")), 0o600); err != nil {
		d.Fatal(err)
	}
}

// ask sends a request to a handler, with headers given as "Name: value". It comes from the console's own page
// unless these say otherwise; "Name:" leaves a header out.
func (d *door) ask(to http.Handler, method, path, body string, headers ...string) *http.Response {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), hung)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Host = host
	r.Header.Set("Origin", "https://"+host)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Content-Type", "application/json")
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ":")
		switch value = strings.TrimSpace(value); {
		case name == "Host":
			r.Host = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return w.Result()
}

func textOf(t *testing.T, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// logIn returns the header with the cookie of a new session.
func (d *door) logIn() string {
	d.Helper()
	r := d.ask(d.console, "POST", "/console/login", fmt.Sprintf(`{"token":%q}`, token))
	if r.StatusCode != 200 || len(r.Cookies()) != 1 {
		d.Fatalf("%d %s %v", r.StatusCode, textOf(d.T, r), r.Cookies())
	}
	return "Cookie: " + r.Cookies()[0].Name + "=" + r.Cookies()[0].Value
}

const list = "/console/api/v1/sandboxes"

func (d *door) want(what string, r *http.Response, status int) {
	d.Helper()
	if r.StatusCode != status {
		d.Errorf("%s: %d, want %d: %s", what, r.StatusCode, status, textOf(d.T, r))
	}
}

// follow opens a stream, and returns what is closed at its end.
func (d *door) follow(to http.Handler, path, cookie string) <-chan bool {
	d.Helper()
	server := httptest.NewServer(to)
	d.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	r, err := http.NewRequestWithContext(d.Context(), "GET", server.URL+path, nil)
	if err != nil {
		d.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Cookie", strings.TrimPrefix(cookie, "Cookie: "))
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != 200 {
		d.Fatal(answer, err)
	}
	over := make(chan bool)
	go func() {
		defer close(over)
		defer answer.Body.Close()
		_, _ = io.Copy(io.Discard, answer.Body)
	}()
	return over
}
