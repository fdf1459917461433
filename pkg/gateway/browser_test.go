package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

// hostilePage tries what a page must not be able to do, and reports what came of each attempt.
// GATEWAY is the gateway's origin, and VICTIM that of another sandbox, which its user has opened.
const hostilePage = `<!doctype html><script>
const gateway = "GATEWAY", victim = "VICTIM", tried = {};
async function attempt(name, what) {
	try { tried[name] = String(await what()) } catch (e) { tried[name] = "refused" }
}
const text = async (url, options) => (await fetch(url, options)).text();
const framed = (url) => new Promise((done) => {
	const frame = document.createElement("iframe");
	frame.onload = () => { try { done("read " + frame.contentDocument.body.innerText) } catch (e) { done("refused") } };
	frame.src = url;
	document.body.append(frame);
});
const loaded = (url) => new Promise((done) => {
	const script = document.createElement("script");
	script.onload = () => done("ran"); script.onerror = () => done("refused");
	script.src = url;
	document.body.append(script);
});
const socket = (url) => new Promise((done) => {
	const s = new WebSocket(url);
	s.onopen = () => done("open"); s.onerror = () => done("refused");
});
window.onload = async () => {
	for (const [name, origin] of [["gateway", gateway], ["victim", victim]]) {
		await attempt(name + " read", () => text(origin + "/", {credentials: "include"}));
		await attempt(name + " called", () => text(origin + "/api/v1/sandboxes", {method: "POST", credentials: "include", headers: {"Content-Type": "application/json"}, body: "{}"}));
		await attempt(name + " routed", () => text(origin + "/", {credentials: "include", headers: {"X-Sandbox-ID": "victim", "X-Sandbox-Token": "guess"}}));
		await attempt(name + " simple", () => fetch(origin + "/api/v1/sandboxes", {method: "POST", mode: "no-cors", credentials: "include", body: "{}"}).then((r) => "opaque " + r.status));
		await attempt(name + " framed", () => framed(origin + "/"));
		await attempt(name + " script", () => loaded(origin + "/script.js"));
		await attempt(name + " socket", () => socket(origin.replace("http", "ws") + "/socket"));
		await attempt(name + " worker", () => navigator.serviceWorker.register(origin + "/worker.js"));
	}
	document.cookie = "tossed=1; Domain=" + new URL(gateway).hostname;
	document.cookie = "tossed=1; Domain=sandboxes.localhost";
	document.cookie = "tossed=1; Domain=localhost";
	document.cookie = "__Host-podagent-link=tossed; Secure; Path=/; Domain=sandboxes.localhost";
	document.cookie = "page=1";
	await attempt("cookies", () => document.cookie);
	await attempt("own", () => text("/own"));
	await attempt("opened", async () => {
		for (const w = window.open(gateway + "/console-of-another"); ; await new Promise((r) => setTimeout(r, 10))) {
			if (w.location.href !== "about:blank") return w.document.body.innerText;
		}
	});
	await fetch("/report", {method: "POST", body: JSON.stringify(tried)});
	location = gateway + "/end";
};
</script>`

// browsed is a gateway whose users have browsers: gateway.localhost is its host, which has a
// console with a session, and the sandboxes are below sandboxes.localhost.
type browsed struct {
	*testing.T
	gateway http.Handler
	origin  string // of the gateway's host

	mu     sync.Mutex
	first  string // where the console leads
	victim string // where its end leads
	// calls are the requests to the gateway's host, and ends those of each host after the attack.
	calls, ends []string
}

func newBrowsed(t *testing.T) *browsed {
	t.Helper()
	b := &browsed{T: t}
	server := httptest.NewUnstartedServer(b)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	g := gateway.New(gateway.Options{Launcher: launchertest.Local(t), Tenants: gateway.OneTenant{Name: "acme", Token: "a"}, Domain: "sandboxes.localhost:" + port})
	b.gateway, b.origin = g, "http://gateway.localhost:"+port
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *browsed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.Host, "gateway.localhost:") {
		b.gateway.ServeHTTP(w, r)
		return
	}
	b.note(&b.calls, r)
	switch r.URL.Path {
	case "/console":
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "secret", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		first, _ := b.places()
		b.lead(w, first)
	case "/end":
		b.note(&b.ends, r)
		_, victim := b.places()
		b.lead(w, victim+"/end")
	default:
		b.gateway.ServeHTTP(w, r)
	}
}

// places returns first and victim.
func (b *browsed) places() (first, victim string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first, b.victim
}

func (b *browsed) note(to *[]string, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*to = append(*to, fmt.Sprintf("%s %s from %q with %q", r.Method, r.URL.Path, r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Cookie")))
}

// lead answers with a page that leads to another.
func (b *browsed) lead(w http.ResponseWriter, to string) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, "<!doctype html><script>location = %q</script>", to)
}

// open makes a sandbox with a server, and returns the link to it.
func (b *browsed) open(name string, handler http.HandlerFunc) (link string) {
	b.Helper()
	server := httptest.NewServer(handler)
	b.Cleanup(server.Close)
	var out struct{ URL string }
	for _, call := range [][2]string{{"", `{"id":"` + name + `"}`}, {"/" + name + "/ports/" + portOf(server) + "/link", "{}"}} {
		r := httptest.NewRequest("POST", "/api/v1/sandboxes"+call[0], strings.NewReader(call[1]))
		r.Header.Set("Authorization", "Bearer a")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		b.gateway.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code >= 300 {
			b.Fatalf("%d %s: %v", w.Code, w.Body, err)
		}
	}
	return out.URL
}

// browse starts a browser at a page. It ends with the test.
func browse(t *testing.T, url string) {
	t.Helper()
	log := &bytes.Buffer{}
	cmd := exec.Command("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking", "--disable-popup-blocking",
		"--no-proxy-server", "--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", url)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the browser says: %s", log)
		}
	})
}

// A page that a sandbox serves gets at nothing beyond it, in the browser of a user who has a
// session with the gateway's host and another sandbox open.
func TestPageOfASandboxStaysInIt(t *testing.T) {
	b := newBrowsed(t)
	var toVictim []string
	report, end := make(chan map[string]string, 1), make(chan bool)
	ends := sync.OnceFunc(func() { close(end) }) // browsers may ask again
	mallory := b.open("mallory", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/report":
			tried := map[string]string{}
			if err := json.NewDecoder(r.Body).Decode(&tried); err != nil {
				t.Error(err)
			}
			report <- tried
		case "/own":
			fmt.Fprintf(w, "%q", r.Header.Get("Cookie"))
		default:
			for _, cookie := range []string{"own=1; Domain=localhost", "own2=1; Domain=gateway.localhost", "own3=1; Domain=sandboxes.localhost"} {
				w.Header().Add("Set-Cookie", cookie)
			}
			w.Header().Set("Clear-Site-Data", `"cookies", "storage"`)
			w.Header().Set("Content-Type", "text/html")
			_, victim := b.places()
			fmt.Fprint(w, strings.NewReplacer("GATEWAY", b.origin, "VICTIM", victim).Replace(hostilePage))
		}
	})
	first := b.open("victim", func(w http.ResponseWriter, r *http.Request) {
		b.note(&toVictim, r)
		if r.URL.Path == "/end" {
			ends()
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		b.lead(w, mallory)
	})
	victim, _, _ := strings.Cut(first, "/?")
	b.mu.Lock()
	b.first, b.victim = first, victim
	b.mu.Unlock()

	browse(t, b.origin+"/console")
	got := map[string]string{}
	select {
	case got = <-report:
		await(t, end)
	case <-time.After(hung):
		t.Error("the page reports nothing")
	}
	// What a script sets for all sandboxes reaches them, but neither the gateway nor its cookies.
	const cookies = "own=1; own2=1; own3=1; tossed=1; page=1"
	want := map[string]string{"cookies": cookies, "own": `"` + cookies + `"`, "opened": "refused"}
	for _, name := range []string{"gateway", "victim"} {
		for _, attempt := range []string{"read", "called", "routed", "framed", "script", "socket", "worker", "simple"} {
			want[name+" "+attempt] = "refused"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, got[name], want[name])
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, call := range toVictim {
		if strings.Contains(call, `"same-site"`) || strings.Contains(call, "own") || strings.Contains(call, "podagent") {
			t.Errorf("the victim got %s", call)
		}
	}
	for _, call := range b.calls {
		if strings.Contains(call, "tossed") || strings.Contains(call, "own=") {
			t.Errorf("the gateway got %s", call)
		}
	}
	if ends := fmt.Sprint(b.ends); ends != `[GET /end from "cross-site" with "session=secret"]` {
		t.Errorf("after it the gateway got %s", ends)
	}
	if len(toVictim) == 0 || !strings.HasPrefix(toVictim[0], "GET / ") {
		t.Errorf("the victim's page was not open: %q", toVictim)
	}
}
