// Package recipetest has what tests of the way out share that run what users run in
// sandboxes: the recipes of docs/egress.md, servers for them, and programs that images
// lack. It is for tests only, on Linux.
package recipetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/podapi"
)

// Evil is the name of a host that no rule of [Town.Rules] allows, and Reason what programs
// are told of it.
const (
	Evil   = "evil.test"
	Reason = "no rule allows " + Evil
)

// Recipe is what users do in a sandbox with one program.
type Recipe struct {
	Program string
	Host    string // of the [Town]
	// Script is for bash. It asks https://$HOST:$PORT.
	Script string
	Want   string // the output, but for space around it
	Denied string // in the output, if $HOST is [Evil]
	// Tries are how often the program asks for a host that it is denied. All follow each other
	// at once: nobody waits before another try.
	Tries int
}

const tunnelFailed = "CONNECT tunnel failed, response 403"

// Recipes are those of docs/egress.md. The programs must be in PATH: see [Node] and [Install].
var Recipes = []Recipe{
	{"curl", "web.example.com", "curl -sSv https://$HOST:$PORT/ 2>log || { cat log; false; }", "hello", Reason, 1},
	{"git", "git.example.com", "git clone -q https://$HOST:$PORT/r.git r && cat r/file", "hello", tunnelFailed, 1},
	{"npm", "npm.example.com", `npm install --loglevel error --no-audit --no-fund --registry https://$HOST:$PORT p >/dev/null && node -p 'require("p")'`, "hello", Reason, 2},
	{"go", "go.example.com", `export GOPROXY=https://$HOST:$PORT GOSUMDB=off GOFLAGS=-modcacherw GOMODCACHE=$PWD/modules &&
		printf 'module a.test\nrequire m.test v1.0.0\n' >go.mod && go mod download m.test && ls modules/m.test*`, "go.mod\nm.go", Reason, 1},
	{"pip", "pip.example.com", `export PIP_RETRIES=1 && ` + pip + ` install -q --disable-pip-version-check --root-user-action ignore --target . --index-url https://$HOST:$PORT/simple/ p &&
		cat p.py`, "hello = 'hello'", Reason, 2},
	{"cargo", "cargo.example.com", `export CARGO_HOME=$PWD/cargo CARGO_NET_RETRY=0 CARGO_REGISTRIES_T_INDEX=sparse+https://$HOST:$PORT/ && mkdir src && touch src/lib.rs &&
		printf '[package]\nname="a"\nversion="1.0.0"\n[dependencies]\np={version="1",registry="t"}\n' >Cargo.toml && cargo fetch -q && ls cargo/registry/src/*`, "p-1.0.0", tunnelFailed, 1},
	{"python3", "web.example.com", `python3 -c '
import os, urllib.request as r
print(r.urlopen("https://{HOST}:{PORT}/".format(**os.environ)).read().decode())'`, "hello", Reason, 1},
	{"node", "web.example.com", NodeFetch, "hello", "Proxy response (403)", 1},
	{"gh", "gh.example.com", `GH_HOST=$HOST:$PORT GH_ENTERPRISE_TOKEN=${TOKEN:-none} gh api user --jq .login`, "hello", Reason, 1},
	{"apt-get", "apt.example.com", `mkdir -p lists/partial archives/partial && touch status && ` + aptConfig + ` && apt-get -q update >log 2>&1 && apt-get -q download p >>log 2>&1 || { cat log; false; } &&
		dpkg-deb -x p_*.deb . && cat hello`, "hello", Reason, 1},
}

// pip is that of the Python which python3 begins. A version manager's pip, as pyenv's, would do more after
// an installation, for the whole user, and wait for whoever is at it.
const pip = `"$(python3 -c 'import sys; print(sys.executable)')" -m pip`

// InPods are those whose programs pods have after [Install], if their image is that of programs.
func InPods() []Recipe {
	return slices.DeleteFunc(slices.Clone(Recipes), func(r Recipe) bool {
		return slices.Contains([]string{"cargo", "gh", "apt-get"}, r.Program)
	})
}

// aptConfig has apt keep to the working directory, so that it needs no root, and not wait between tries.
const aptConfig = `echo "deb [trusted=yes] https://$HOST:$PORT/ ./" >sources.list && echo "
	Dir::State::lists \"$PWD/lists\"; Dir::State::status \"$PWD/status\"; Dir::Cache \"$PWD\"; Dir::Etc::sourcelist \"$PWD/sources.list\";
	Dir::Etc::sourceparts \"-\"; Dir::Etc::trustedparts \"-\"; APT::Sandbox::User \"\"; Acquire::Retries \"0\";
	Acquire::https::CAInfo \"$SSL_CERT_FILE\";" >apt.conf && export APT_CONFIG=$PWD/apt.conf`

// NodeFetch is the script of Node's recipe.
const NodeFetch = `node -e 'const {HOST, PORT} = process.env
fetch("https://" + HOST + ":" + PORT + "/").then(r => r.text()).then(console.log)'`

// Run runs a script of bash in a sandbox, in a directory of its own, which is its home, too.
// The environment says where $HOST and $PORT are. The output is that of both streams.
func Run(ctx context.Context, c *podapi.Client, script, host string, port int, env ...string) (output string, err error) {
	cmd := c.Command(ctx, "bash", "-c", `cd "$(mktemp -dp .)" && export HOME=$PWD && `+script)
	cmd.Env = append([]string{"HOST=" + host, fmt.Sprint("PORT=", port)}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Check runs a recipe with its host, which must be allowed, and with [Evil], which must not. Decided
// returns, for each try of a host so far, the verdict and the reason with a colon between them.
func (r *Recipe) Check(t *testing.T, c *podapi.Client, port int, env []string, decided func(host string) []string) {
	t.Helper()
	out, err := Run(t.Context(), c, r.Script, r.Host, port, env...)
	if err != nil || strings.TrimSpace(out) != r.Want {
		t.Errorf("%v:\n%s", err, out)
	}
	if got := decided(r.Host); len(got) == 0 || got[0] != "allowed:" {
		t.Errorf("the decisions were %q", got)
	}
	before, begun := len(decided(Evil)), time.Now()
	out, err = Run(t.Context(), c, r.Script, Evil, port, env...)
	tries := decided(Evil)[before:]
	t.Logf("another host: it failed after %v and %d tries", time.Since(begun), len(tries))
	if err == nil || !strings.Contains(out, r.Denied) {
		t.Errorf("another host: %v:\n%s", err, out)
	}
	if len(tries) == 0 || len(tries) > r.Tries {
		t.Errorf("another host: the proxy was asked %d times, want 1 to %d", len(tries), r.Tries)
	}
	for _, d := range tries {
		if d != "denied:"+Reason {
			t.Errorf("another host: the decision was %q", d)
		}
	}
}

// Trust returns the variables by which the programs trust the roots of a file alone.
func Trust(file string) (env []string) {
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "npm_config_cafile"} {
		env = append(env, name+"="+file)
	}
	return env
}
