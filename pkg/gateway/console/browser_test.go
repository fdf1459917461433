package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// browserTime bounds a session of the browser, with the installation of what drives it.
const browserTime = 10 * time.Minute

// plan is what the browser is told (testdata/browser).
type plan struct {
	Origin    string `json:"origin"`
	Token     string `json:"token"`
	Sandbox   string `json:"sandbox"`
	Port      int    `json:"port"`
	Cut       string `json:"cut"`       // cuts the connections of the gateway
	FirstView int    `json:"firstView"` // in milliseconds
}

// TestConsoleInABrowser takes each page and action in Chromium, on a sandbox whose files, processes and
// servers are hostile. No step may break the page's policy, run a script of the sandbox, or ask another host.
func TestConsoleInABrowser(t *testing.T) {
	d := newDoor(t)
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { d.server.CloseClientConnections() }))
	t.Cleanup(cut.Close)
	inside := httptest.NewServer(http.HandlerFunc(servePageOfTheSandbox))
	t.Cleanup(inside.Close)
	port, err := strconv.Atoi(inside.URL[strings.LastIndex(inside.URL, ":")+1:])
	if err != nil {
		t.Fatal(err)
	}
	d.call("POST", "/api/v1/sandboxes", `{"id":"job-17","labels":{"team":"red"}}`)
	d.hostileFiles("job-17")
	d.drive(plan{Origin: d.origin, Token: token, Sandbox: "job-17", Port: port, Cut: cut.URL, FirstView: 1000})
}

// servePageOfTheSandbox says what a page of a server in a sandbox gets to see.
func servePageOfTheSandbox(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<!doctype html><p>the server of the sandbox</p><pre></pre><script>
document.querySelector("pre").textContent = JSON.stringify({opener: !!window.opener, cookie: document.cookie + %q});
</script>`, r.Header.Get("Cookie"))
}

// hostileFiles makes files whose names and contents would do harm in a page that took them for its own.
func (d *door) hostileFiles(id string) {
	d.Helper()
	script := `mkdir dir && printf 'what is inside' >dir/inner.txt && mkfifo fifo
printf '<!doctype html><script>window.ran=1</script><img src=x onerror=window.ran=1><b onclick=window.ran=1>b</b>\n' >hostile.html
for name in '<img src=x onerror=window.ran=1>' "$(printf 'evil\342\200\256txt.exe')" "$(printf 'a\nb')" "$(printf 'not\377text')"; do printf named >"$name" || exit; done`
	body, _ := json.Marshal(map[string]string{"script": script})
	var exit struct{ Code int }
	if err := json.Unmarshal(d.call("POST", "/api/v1/sandboxes/"+id+"/exec", string(body)), &exit); err != nil || exit.Code != 0 {
		d.Fatal(exit, err)
	}
}

// call calls the gateway with the token.
func (d *door) call(method, path, body string) []byte {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.server.URL+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode >= 300 {
		d.Fatalf("%s %s: %d %s %v", method, path, r.StatusCode, text, err)
	}
	return text
}

// drive has Chromium take all steps.
func (d *door) drive(p plan) {
	d.Helper()
	dir := d.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/browser")); err != nil {
		d.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.Context(), browserTime)
	defer cancel()
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		d.Fatalf("npm cannot install what drives the browser: %v\n%s", err, out)
	}
	in, _ := json.Marshal(p)
	cmd := exec.CommandContext(ctx, "node", "drive.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(in), d.Output()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		d.Fatal(err)
	}
	steps := 0
	for lines := bufio.NewScanner(out); lines.Scan(); steps++ {
		var step struct{ Name, Wrong string }
		if err := json.Unmarshal(lines.Bytes(), &step); err != nil {
			d.Fatalf("%v: %s", err, lines.Bytes())
		}
		d.Run(step.Name, func(t *testing.T) {
			if step.Wrong != "" {
				t.Error(step.Wrong)
			}
		})
	}
	if err := cmd.Wait(); err != nil || steps < 20 {
		d.Errorf("the browser took %d steps: %v", steps, err)
	}
}
