//go:build !race

package egress

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// recipe is what users do in a sandbox, at $HOST:$PORT.
type recipe struct {
	program string
	host    string // the one that is allowed
	script  string
	want    string // the output
	denied  string // in the output for another host
}

const reason = "no rule allows evil.test"

var recipes = []recipe{
	{"curl", "web.test", "curl -sSv https://$HOST:$PORT/ 2>log || { cat log; false; }", "hello", reason},
	{"git", "git.test", "git clone -q https://$HOST:$PORT/r.git r && cat r/file", "hello", "CONNECT tunnel failed, response 403"},
	{"npm", "npm.test", `npm install --loglevel error --no-audit --no-fund --registry https://$HOST:$PORT p >/dev/null && node -p 'require("p")'`, "hello", reason},
	{"go", "go.test", `export GOPROXY=https://$HOST:$PORT GOSUMDB=off GOFLAGS=-modcacherw GOMODCACHE=$PWD/modules &&
		printf 'module a.test\nrequire m.test v1.0.0\n' >go.mod && go mod download m.test && ls modules/m.test*`, "go.mod\nm.go", reason},
	{"pip", "pip.test", `export PIP_RETRIES=1 && pip install -q --disable-pip-version-check --root-user-action ignore --target . --index-url https://$HOST:$PORT/simple/ p &&
		cat p.py`, "hello = 'hello'", reason},
	{"cargo", "cargo.test", `export CARGO_HOME=$PWD/cargo CARGO_NET_RETRY=0 CARGO_REGISTRIES_T_INDEX=sparse+https://$HOST:$PORT/ && mkdir src && touch src/lib.rs &&
		printf '[package]\nname="a"\nversion="1.0.0"\n[dependencies]\np={version="1",registry="t"}\n' >Cargo.toml && cargo fetch -q && ls cargo/registry/src/*`, "p-1.0.0", "CONNECT tunnel failed, response 403"},
	{"python3", "web.test", `python3 -c '
import os, urllib.request as r
print(r.urlopen("https://{HOST}:{PORT}/".format(**os.environ)).read().decode())'`, "hello", reason},
	{"node", "web.test", nodeFetch, "hello", "Proxy response (403)"},
}

const nodeFetch = `node -e 'const {HOST, PORT} = process.env
fetch("https://" + HOST + ":" + PORT + "/").then(r => r.text()).then(console.log)'`

// TestRecipes runs what users run, with a host that is allowed and with one that is not. These
// are of docs/egress.md.
func TestRecipes(t *testing.T) {
	ca := newAuthority(t)
	port := serveTown(t, ca)
	h := newHouse(t, Options{}, townRules(port)...)
	h.trust(t, ca)
	for _, r := range recipes {
		t.Run(r.program, func(t *testing.T) { r.run(t, h, port) })
	}
}

func (r *recipe) run(t *testing.T, h *house, port int) {
	needProgram(t, r.program)
	env := []string{fmt.Sprint("PORT=", port), "RUSTUP_HOME=" + rustup()}
	out, err := h.script(t, r.script, append(env, "HOST="+r.host)...)
	if err != nil || strings.TrimSpace(out) != r.want {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := h.told(r.host); len(got) == 0 || got[0].Verdict != Allowed {
		t.Errorf("the decisions were %+v", got)
	}
	before, begun := len(h.told("evil.test")), time.Now()
	out, err = h.script(t, r.script, append(env, "HOST=evil.test")...)
	t.Logf("another host failed after %v", time.Since(begun))
	if err == nil || !strings.Contains(out, r.denied) {
		t.Errorf("another host: %v:\n%s", err, out)
	}
	for _, d := range h.told("evil.test")[before:] {
		if d.Verdict != Denied || d.Reason != reason {
			t.Errorf("another host: the decision was %+v", d)
		}
	}
	if before == len(h.told("evil.test")) {
		t.Error("another host: the proxy was not asked")
	}
}

// needProgram fails a test for which the machine has no program. It skips what "make needs" does not
// install, pip and cargo, where they are missing, and Node where it is too old.
func needProgram(t *testing.T, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	switch {
	case err == nil:
	case program == "pip" || program == "cargo":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
	if program == "node" && !nodeReadsProxies(t) {
		t.Skip("Node reads the variables of proxies since 22.21 and 24.5")
	}
}

func nodeReadsProxies(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("node", "-p", `process.allowedNodeEnvironmentFlags.has("--use-env-proxy")`).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)) == "true"
}

// rustup is where rustup, if there is one, has its programs: below the home, unless it is told.
func rustup() string {
	home, _ := os.UserHomeDir() // without one cargo says what is wrong
	if dir := os.Getenv("RUSTUP_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(home, ".rustup")
}

// Older ones of Node try to resolve the name themselves, which fails at once.
func TestRecipeOfNodeThatIgnoresProxies(t *testing.T) {
	ca := newAuthority(t)
	port := serveTown(t, ca)
	h := newHouse(t, Options{}, townRules(port)...)
	h.trust(t, ca)
	out, err := h.script(t, nodeFetch, "HOST=web.test", fmt.Sprint("PORT=", port), "NODE_USE_ENV_PROXY=0")
	if err == nil || !strings.Contains(out, "EAI_AGAIN") {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := h.told("web.test"); got != nil {
		t.Errorf("the decisions were %+v", got)
	}
}
