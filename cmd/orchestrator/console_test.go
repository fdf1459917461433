//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// visitor is a browser of the console, without its display.
type visitor struct {
	*testing.T
	at     *url.URL
	cookie string
}

// send sends a request as the console's own page does. Names below localhost are of this machine.
func (v *visitor) send(method, path, body string) (int, string) {
	v.Helper()
	r, err := http.NewRequestWithContext(v.Context(), method, "http://127.0.0.1:"+v.at.Port()+path, strings.NewReader(body))
	if err != nil {
		v.Fatal(err)
	}
	r.Host = v.at.Host
	for name, value := range map[string]string{"Origin": v.at.Scheme + "://" + v.at.Host, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json", "Cookie": v.cookie} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		v.Fatal(err)
	}
	defer answer.Body.Close()
	for _, c := range answer.Cookies() {
		v.cookie = c.Name + "=" + c.Value
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// visit starts a program that prints where its console is.
func (c *cli) visit(cmd *exec.Cmd, field string) *visitor {
	c.t.Helper()
	cmd.Stderr = c.t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(cmd)
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var printed map[string]string
	if err == nil {
		err = json.Unmarshal(line, &printed)
	}
	at, urlErr := url.Parse(printed[field])
	if err != nil || urlErr != nil || at.Host == "" {
		c.t.Fatalf("%q: %v %v", line, err, urlErr)
	}
	return &visitor{T: c.t, at: at}
}

func TestConsoleOfThisMachine(t *testing.T) {
	c := newCLI(t)
	tools, temp := t.TempDir(), t.TempDir()
	opened := filepath.Join(t.TempDir(), "opened")
	if err := os.WriteFile(filepath.Join(tools, "xdg-open"), []byte("#!/bin/sh\nstat -c %a \"$1\" >'"+opened+".new'; cat \"$1\" >>'"+opened+".new'; mv '"+opened+".new' '"+opened+"'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(c.bin, "orchestrator"), "console", "-o", "json")
	cmd.Env = append(c.env, "DISPLAY=:0", "TMPDIR="+temp, "PATH="+tools+":"+os.Getenv("PATH"))
	v := c.visit(cmd, "url")

	var page string
	for deadline := time.Now().Add(hung); page == ""; {
		text, _ := os.ReadFile(opened)
		if page = string(text); time.Now().After(deadline) {
			t.Fatal("no browser was opened")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if !strings.HasPrefix(page, "600\n") || !strings.Contains(page, `url=`+v.at.String()) {
		t.Errorf("the browser got %s, not %s", page, v.at)
	}

	code := `{"code":"` + strings.TrimPrefix(v.at.Fragment, "login=") + `"}`
	if status, text := v.send("POST", "/console/login", code); status != 200 {
		t.Fatalf("the code of the link: %d %s", status, text)
	}
	if status, _ := (&visitor{T: t, at: v.at}).send("POST", "/console/login", code); status != 401 {
		t.Errorf("the code again: %d", status)
	}
	shared := *v.at
	shared.Host = "localhost:" + v.at.Port()
	if status, _ := (&visitor{t, &shared, v.cookie}).send("GET", "/console/api/v1/sandboxes", ""); status != 403 {
		t.Errorf("at a name that other servers share: %d", status)
	}
	v.workOn("box")

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v %v", left, err)
	}
	c.run(nil, io.Discard, "exec", "box", "--", "true")
}

// workOn works on a sandbox that the command line has made, and on one that it makes.
func (v *visitor) workOn(id string) {
	v.Helper()
	ids := func() (ids []string) {
		var list struct{ Sandboxes []struct{ ID string } }
		status, text := v.send("GET", "/console/api/v1/sandboxes", "")
		if err := json.Unmarshal([]byte(text), &list); err != nil || status != 200 {
			v.Fatalf("%d %s", status, text)
		}
		for _, s := range list.Sandboxes {
			ids = append(ids, s.ID)
		}
		return ids
	}
	if diff := cmp.Diff([]string{id}, ids()); diff != "" {
		v.Error(diff)
	}
	for _, s := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"POST", "/" + id + "/exec", `{"script":"echo here"}`, 200, "here"},
		{"GET", "/" + id, "", 200, `"id":"` + id + `"`},
		{"GET", "/none", "", 404, "no_sandbox"},
		{"POST", "", `{"id":"made-here"}`, 201, "made-here"},
		{"GET", "/made-here", "", 200, `"running"`},
		{"DELETE", "/made-here", "", 204, ""},
	} {
		if status, text := v.send(s.method, "/console/api/v1/sandboxes"+s.path, s.body); status != s.status || !strings.Contains(text, s.want) {
			v.Errorf("%s %s: %d %s", s.method, s.path, status, text)
		}
	}
	if diff := cmp.Diff([]string{id}, ids()); diff != "" {
		v.Error(diff)
	}
}

func TestGatewayServesTheConsoleOnlyIfAsked(t *testing.T) {
	c := newCLI(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(gatewayTestToken), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(field string, args ...string) *visitor {
		cmd := exec.Command(filepath.Join(c.bin, "orchestrator"), append([]string{"gateway", "-o", "json", "--listen", ":0", "--token-file", token}, args...)...)
		cmd.Env = c.env
		v := c.visit(cmd, field)
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return v
	}
	v := start("console_url", "--console")
	if status, _ := v.send("POST", "/console/login", `{"token":"`+gatewayTestToken+`"}`); status != 200 {
		t.Errorf("the login: %d", status)
	}
	if status, text := v.send("GET", "/console/api/v1/whoami", ""); status != 200 || !strings.Contains(text, soleTenant) {
		t.Errorf("a call: %d %s", status, text)
	}
	if status, text := v.send("GET", "/console", ""); status != 200 || !strings.Contains(text, "<!doctype html>") {
		t.Errorf("the page: %d %s", status, text)
	}
	if status, _ := start("url").send("GET", "/console", ""); status != 404 {
		t.Errorf("without --console: %d", status)
	}
}
