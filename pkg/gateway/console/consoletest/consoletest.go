// Package consoletest takes each page and action of a console in Chromium, as people do.
package consoletest

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
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
	Origin      string   `json:"origin"`                // of the console
	Token       string   `json:"token"`                 // of a tenant
	Sandbox     string   `json:"sandbox"`               // its name; it runs, has the label team=red and what [HostileFiles] makes
	Cut         string   `json:"cut"`                   // a POST to this URL cuts the connections of the gateway
	Port        int      `json:"port,omitempty"`        // of a server in it by [ServePage]; 0 for none
	Denied      string   `json:"denied,omitempty"`      // a host that it may not reach; empty if no gateway lets it out
	Pods        bool     `json:"pods,omitempty"`        // it can be paused, and extended
	FirstView   int      `json:"firstView"`             // how long the first view may take, in milliseconds
	Screenshots string   `json:"screenshots,omitempty"` // take pictures into this directory, and nothing else
	Only        []string `json:"only,omitempty"`        // the names of steps to take; all if it is empty
}

// HostileFiles is a script that makes files in a sandbox whose names and contents would do harm in a page that
// took them for its own.
const HostileFiles = `mkdir dir && printf 'what is inside' >dir/inner.txt && mkfifo fifo
printf '<!doctype html><script>window.ran=1</script><img src=x onerror=window.ran=1><b onclick=window.ran=1>b</b>\n' >hostile.html
for name in '<img src=x onerror=window.ran=1>' "$(printf 'evil\342\200\256txt.exe')" "$(printf 'a\nb')" "$(printf 'not\377text')"; do printf named >"$name" || exit; done`

// ServePage answers with a page of a server in a sandbox, which tries to get at the console at an origin, and
// says what came of it.
func ServePage(w http.ResponseWriter, r *http.Request, console string) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, hostilePage, console, r.Header.Get("Cookie"))
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

// Drive takes the steps of a plan. Each is a test of its own.
func Drive(t *testing.T, p Plan) {
	t.Helper()
	dir := install(t)
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	in, _ := json.Marshal(p)
	cmd := exec.CommandContext(ctx, "node", "drive.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(in), t.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for lines := bufio.NewScanner(out); lines.Scan(); steps++ {
		var step struct{ Name, Wrong string }
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			t.Fatalf("%v: %s", err, lines.Bytes())
		}
		t.Run(step.Name, func(t *testing.T) {
			if step.Wrong != "" {
				t.Error(step.Wrong)
			}
		})
	}
	if err := cmd.Wait(); err != nil || steps == 0 {
		t.Errorf("the browser took %d steps: %v", steps, err)
	}
}

// install returns a directory with what drives Chromium.
func install(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := fs.Sub(browser, "browser")
	if err == nil {
		err = os.CopyFS(dir, files)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm cannot install what drives the browser: %v\n%s", err, out)
	}
	return dir
}
