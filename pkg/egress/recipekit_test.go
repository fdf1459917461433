//go:build !race

package egress

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// house is a sandbox that the kernel keeps to its way out, and the test as its far end.
type house struct {
	*launcher.Sandbox
	*Server
	env []string // of what the test runs in it

	mu        sync.Mutex
	decisions []Decision
}

func newHouse(t testing.TB, opts Options, rules ...string) *house {
	t.Helper()
	sandbox, err := launchertest.Local(t).Launch(t.Context(), launcher.Spec{ID: t.Name(), Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sandbox.Close() })
	h := &house{Sandbox: sandbox}
	opts.Policy, opts.Resolver = policyOf(t, rules...), names{}
	opts.Log = func(d Decision) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.decisions = append(h.decisions, d)
	}
	if h.Server, err = Serve(context.Background(), sandbox.Client, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Server.Close() })
	return h
}

// trust makes programs in the sandbox trust an authority of the test's own.
func (h *house) trust(t testing.TB, a *authority) {
	t.Helper()
	pem, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.WriteFile(t.Context(), "roots.pem", pem, 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "PIP_CERT", "CARGO_HTTP_CAINFO", "npm_config_cafile"} {
		h.env = append(h.env, name+"="+h.Workdir+"/roots.pem")
	}
}

// script runs a script of bash in the sandbox, in a directory of its own, which is its home, too.
func (h *house) script(t testing.TB, script string, env ...string) (output string, err error) {
	t.Helper()
	cmd := h.Command(t.Context(), "bash", "-c", `cd "$(mktemp -dp .)" && HOME=$PWD && `+script)
	cmd.Env = append(append([]string{}, h.env...), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// told are the decisions about a host.
func (h *house) told(host string) (about []Decision) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.decisions {
		if d.Host == host {
			about = append(about, d)
		}
	}
	return about
}

// serveTown serves what package managers and other programs ask for, with TLS, by names of its own:
// one package, p, of each kind. It returns the port.
func serveTown(t testing.TB, a *authority) int {
	t.Helper()
	wheel := pythonWheel(t)
	crate := tarball(t, "p-1.0.0/", map[string]string{"Cargo.toml": "[package]\nname=\"p\"\nversion=\"1.0.0\"\nedition=\"2021\"\n", "src/lib.rs": ""})
	module := zipped(t, map[string]string{"m.test@v1.0.0/go.mod": "module m.test\n", "m.test@v1.0.0/m.go": "package m\n"})
	npm := tarball(t, "package/", map[string]string{"package.json": `{"name":"p","version":"1.0.0"}`, "index.js": "module.exports = 'hello'"})
	mux := http.NewServeMux()
	text := func(pattern, format string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, strings.ReplaceAll(format, "{host}", r.Host))
		})
	}
	data := func(pattern string, content []byte) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) })
	}
	text("web.test/", "hello")
	mux.Handle("git.test/", gitServer(t))
	text("npm.test/p", `{"name":"p","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"p","version":"1.0.0","dist":{"tarball":"https://{host}/p.tgz"}}}}`)
	data("npm.test/p.tgz", npm)
	text("go.test/m.test/@v/v1.0.0.info", `{"Version":"v1.0.0"}`)
	text("go.test/m.test/@v/v1.0.0.mod", "module m.test\n")
	data("go.test/m.test/@v/v1.0.0.zip", module)
	mux.HandleFunc("pip.test/simple/p/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/p-1.0.0-py3-none-any.whl">p</a>`)
	})
	data("pip.test/p-1.0.0-py3-none-any.whl", wheel)
	text("cargo.test/config.json", `{"dl":"https://{host}/{crate}.crate"}`)
	text("cargo.test/1/p", fmt.Sprintf(`{"name":"p","vers":"1.0.0","deps":[],"cksum":"%x","features":{},"yanked":false}`+"\n", sha256.Sum256(crate)))
	data("cargo.test/p.crate", crate)
	return serveHTTPS(t, a, mux.ServeHTTP, "web.test", "git.test", "npm.test", "go.test", "pip.test", "cargo.test")
}

// townRules allow a name at a port, as the rules of a user would.
func townRules(port int) (rules []string) {
	for _, name := range []string{"web", "git", "npm", "go", "pip", "cargo"} {
		rules = append(rules, named(name+".test", port))
	}
	return rules
}

// gitServer serves a repository r.git with one commit, as git's own server does.
func gitServer(t testing.TB) http.Handler {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `git init -q w && cd w && echo hello >file && git add file &&
		git -c user.name=n -c user.email=e@e commit -qm m && git clone -q --bare . ../r.git && git --exec-path`)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
}

func tarball(t testing.TB, below string, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for name, content := range files {
		if err := archive.WriteHeader(&tar.Header{Name: below + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(archive, content) // Close says what failed
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipped(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range files {
		w, err := archive.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, content) // Close says what failed
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func pythonWheel(t testing.TB) []byte {
	const info = "p-1.0.0.dist-info/"
	return zipped(t, map[string]string{
		"p.py":            "hello = 'hello'\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: p\nVersion: 1.0.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "p.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	})
}
