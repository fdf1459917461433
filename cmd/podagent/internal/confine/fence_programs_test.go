//go:build !race

package confine

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/gittest"
)

// newProxy starts a proxy that answers for all hosts itself: as a server of git, a registry of
// npm, a proxy of Go's modules, or with "hello".
func newProxy(t *testing.T) *url.URL {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("web.test/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	mux.Handle("git.test/", gittest.Handler(t, gittest.Repository(t, "content\n")))
	mux.HandleFunc("npm.test/p", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name":"p","dist-tags":{"latest":"1.0.0"},"versions":{"1.0.0":{"name":"p","version":"1.0.0","dist":{"tarball":"http://npm.test/p.tgz"}}}}`)
	})
	mux.HandleFunc("npm.test/p.tgz", func(w http.ResponseWriter, _ *http.Request) {
		w.Write(npmPackage(t))
	})
	mux.HandleFunc("go.test/m.test/@v/v1.0.0.info", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"Version":"v1.0.0"}`) })
	mux.HandleFunc("go.test/m.test/@v/v1.0.0.mod", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "module m.test\n") })
	mux.HandleFunc("go.test/m.test/@v/v1.0.0.zip", func(w http.ResponseWriter, _ *http.Request) { w.Write(goModule(t)) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func npmPackage(t *testing.T) []byte {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for name, content := range map[string]string{"package/package.json": `{"name":"p","version":"1.0.0"}`, "package/index.js": "module.exports = 'hello'"} {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Error(err)
		}
		io.WriteString(archive, content)
	}
	archive.Close()
	packed.Close()
	return out.Bytes()
}

func goModule(t *testing.T) []byte {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for name, content := range map[string]string{"go.mod": "module m.test\n", "m.go": "package m\n\nconst Hello = \"hello\"\n"} {
		w, err := archive.Create("m.test@v1.0.0/" + name)
		if err != nil {
			t.Error(err)
		}
		io.WriteString(w, content)
	}
	archive.Close()
	return out.Bytes()
}

// Programs find the proxy by their variables, and do the rest of their work as ever.
func TestProgramsWorkWithinAFence(t *testing.T) {
	proxy := newProxy(t)
	port, _ := strconv.Atoi(proxy.Port())
	fenced := startFenced(t, port)
	for name, test := range map[string]struct{ script, want string }{
		"curl": {"curl -sS http://web.test/", "hello"},
		"git":  {"git clone -q http://git.test/r.git r && cat r/file", "content"},
		"npm":  {"npm install --silent --no-audit --no-fund --registry http://npm.test p >&2 && node -p 'require(\"p\")'", "hello"},
		"go": {`export GOPROXY=http://go.test GOSUMDB=off GOMODCACHE=$PWD/cache GOFLAGS="$GOFLAGS -modcacherw" && mkdir main && cd main &&
			printf 'module a.test\nrequire m.test v1.0.0\n' >go.mod && printf 'package main\nimport "m.test"\nfunc main() { println(m.Hello) }\n' >a.go &&
			go mod tidy 2>tidied && go run .`, "hello"},
		"python": {`python3 -c 'import urllib.request as r; print(r.urlopen("http://web.test/").read().decode())'`, "hello"},
		"processes of python": {`python3 -c '
import multiprocessing, socket, uuid
if __name__ == "__main__":
	socket.getaddrinfo("localhost", 80), uuid.uuid1()
	with multiprocessing.Manager() as m:
		print(sum(multiprocessing.Pool(2).map(abs, m.list([1, -2]))))'`, "3"},
		"node": {`node -e 'require("os").networkInterfaces()
new (require("worker_threads").Worker)("0", {eval: true}).on("exit", () => require("http").get(
	{host: "127.0.0.1", port: new URL(process.env.http_proxy).port, path: "http://web.test/"}, r => r.pipe(process.stdout)))'`, "hello"},
		"make and cc": {`printf 'int puts(const char *);int main(void){return puts("hello")<0;}\n' >p.c && make -s p && ./p`, "hello"},
		"unix sockets": {`python3 -c '
import socket
a = socket.create_server("s", family=socket.AF_UNIX)
b = socket.socket(socket.AF_UNIX); b.connect("s"); b.send(b"hello")
c, d = socket.socketpair()
print(a.accept()[0].recv(9).decode())'`, "hello"},
		"addresses and routes": {"python3 -c 'import socket; print(len(socket.if_nameindex()) > 0)'", "True"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := fencedScript(t, fenced, test.script, "http_proxy="+proxy.String())
			if err != nil || strings.TrimSpace(out) != test.want {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}

// waitLong has resolvers wait for answers, which can't come, for longer than until the test takes them for hung.
const waitLong = "RES_OPTIONS=timeout:30 attempts:5"

// Without the proxy programs say that they cannot leave, and do not wait.
func TestProgramsFailFastWithinAFence(t *testing.T) {
	fenced := startFenced(t, 1)
	for name, test := range map[string]struct{ script, want string }{
		"curl by name":      {"curl -sS http://web.test/", "Could not resolve host"},
		"curl by address":   {"curl -sS http://192.0.2.1/", "Failed to connect"},
		"bash":              {": </dev/tcp/192.0.2.1/80", "Permission denied"},
		"git":               {"git ls-remote http://git.test/r.git", "Could not resolve host"},
		"python by name":    {`python3 -c 'import socket; socket.create_connection(("web.test", 80))'`, "name resolution"},
		"python by address": {`python3 -c 'import socket; socket.create_connection(("192.0.2.1", 80))'`, "Permission denied"},
		"node by name":      {`node -e 'require("http").get("http://web.test/")'`, "EAI_AGAIN"},
		"node by address":   {`node -e 'require("http").get("http://192.0.2.1/")'`, "EACCES"},
		"node, its own DNS": {`node -e 'require("dns").resolve4("web.test", e => { throw e })'`, "ECONNREFUSED"},
		"npm":               {"npm view --fetch-retries 0 --registry http://npm.test p", "EAI_AGAIN"},
		"go":                {"GOPROXY=http://go.test go list -m m.test@v1.0.0", "permission denied"},
		"UDP":               {`python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'`, "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			out, err := fencedScript(t, fenced, test.script, waitLong)
			if took := time.Since(begun); err == nil || !strings.Contains(out, test.want) || took > hung {
				t.Errorf("after %v: %v, %s", took, err, out)
			}
		})
	}
}

// fencedScript runs a script in a directory of its own, without variables for proxies but
// those given.
func fencedScript(t *testing.T, fenced *Thread, script string, env ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = t.TempDir()
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(strings.ToLower(e), "="); !strings.HasSuffix(name, "_proxy") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	// Go would compile its library for each home.
	cmd.Env = append(cmd.Env, "GOCACHE="+goCache(t), "HOME="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	return outputOf(fenced, cmd)
}

func goCache(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
