package egress_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podagent/podagent/internal/gittest"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
)

// secretValue is what must not get into the sandbox.
const secretValue = "the-real-credential-of-this-test"

const secretHost = "api.secret.example"

// vault is a host with TLS that lets in who has the value, as a bearer or as the password
// of Basic.
type vault struct {
	value string
	port  int
	roots *x509.CertPool
	mu    sync.Mutex
	seen  []string // the Authorization of each request
	letIn atomic.Int64
}

func newVault(t testing.TB, inside http.Handler) *vault {
	t.Helper()
	v := &vault{value: secretValue, roots: x509.NewCertPool()}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		v.seen = append(v.seen, r.Header.Get("Authorization"))
		v.mu.Unlock()
		_, password, _ := r.BasicAuth()
		if r.Header.Get("Authorization") != "Bearer "+v.value && password != v.value {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "not let in with "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		v.letIn.Add(1)
		inside.ServeHTTP(w, r)
	}))
	key, cert := serverCertificate(t, secretHost)
	v.roots.AddCert(cert)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}}
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	v.port = s.Listener.Addr().(*net.TCPAddr).Port
	return v
}

// serverCertificate returns a certificate that is its own root.
func serverCertificate(t testing.TB, host string) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

func (v *vault) url() string { return fmt.Sprintf("https://%s:%d", secretHost, v.port) }

// let serves the way out of a sandbox with the secret of the vault, in the variable TOKEN
// and in a file.
func (v *vault) let(t testing.TB, sandbox *launcher.Sandbox, change func(*egress.Options)) *egress.Server {
	t.Helper()
	opts := egress.Options{
		Policy: policy(t, fmt.Sprintf("%s=127.0.0.1:%d", secretHost, v.port)),
		Secrets: []egress.Secret{{
			Name: "TOKEN", Env: "TOKEN", File: v.file(t, sandbox), Value: []byte(secretValue),
			Hosts: policy(t, fmt.Sprintf("%s:%d", secretHost, v.port)).Allow,
		}},
		Roots: v.roots,
	}
	if change != nil {
		change(&opts)
	}
	return serve(t, sandbox, opts)
}

// file returns a path in a directory that does not exist.
func (v *vault) file(t testing.TB, sandbox *launcher.Sandbox) string {
	t.Helper()
	info, err := sandbox.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.Workdir + "/secrets/token"
}

// in runs a script in a sandbox.
func in(t testing.TB, sandbox *launcher.Sandbox, script string, env ...string) string {
	t.Helper()
	cmd := sandbox.Shell(t.Context(), script)
	cmd.Env, cmd.Timeout = env, time.Minute
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("%s%v", out, err)
	}
	return string(out)
}

var greeting = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "let in by %s with %s", r.Proto, r.Header.Get("Authorization"))
})

func TestProgramsUseASecretThatTheyNeverHave(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	v.let(t, sandbox, nil)
	for name, program := range map[string]struct{ needs, script string }{
		"curl":           {"curl", `curl -sS -H "Authorization: Bearer $TOKEN" $URL`},
		"curl by HTTP/1": {"curl", `curl -sS --http1.1 -u "me:$TOKEN" $URL`},
		"curl by SOCKS5": {"curl", `curl -sS -x "$ALL_PROXY" -u "me:$TOKEN" $URL`},
		"a file":         {"curl", `curl -sS -u "me:$(cat secrets/token)" $URL`},
		"Python": {"python3", `python3 -c '
import os, urllib.request
r = urllib.request.Request(os.environ["URL"], headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(r).read().decode())'`},
		"Node": {"node", `node -e '
const http = require("http"), tls = require("tls"), url = new URL(process.env.URL), proxy = new URL(process.env.HTTPS_PROXY)
http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: url.host}).on("connect", (_, socket) => {
	const s = tls.connect({socket, servername: url.hostname}, () => s.write("GET / HTTP/1.1\r\nHost: " + url.host + "\r\nConnection: close\r\nAuthorization: Bearer " + process.env.TOKEN + "\r\n\r\n"))
	s.on("data", d => process.stdout.write(d))
}).end()'`},
		"Go": {"go", ``},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(program.needs); err != nil {
				t.Fatal(err)
			}
			if program.script == "" {
				program.script = goProgram(t)
			}
			got := in(t, sandbox, program.script, "URL="+v.url())
			if !strings.Contains(got, "let in by HTTP") || strings.Contains(got, secretValue) || !strings.Contains(got, "***") {
				t.Error(got)
			}
		})
	}
	// A host that shows what it got.
	got := in(t, sandbox, `curl -sS -H "Authorization: Wrong $TOKEN" $URL`, "URL="+v.url())
	if !strings.HasPrefix(got, "not let in with Wrong ****") || strings.Contains(got, secretValue) {
		t.Error(got)
	}
	searchFor(t, sandbox, secretValue)
}

// goProgram builds a program of Go's standard library, as those are that users have.
func goProgram(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	source := `package main
import ("io"; "net/http"; "os")
func main() {
	r, _ := http.NewRequest("GET", os.Getenv("URL"), nil)
	r.SetBasicAuth("me", os.Getenv("TOKEN"))
	answer, err := http.DefaultClient.Do(r)
	if err != nil { panic(err) }
	io.Copy(os.Stdout, answer.Body)
}`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "program"), filepath.Join(dir, "main.go")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, "program")
}

// searchFor fails the test if the sandbox has a text: in files, or in the memory and the
// environment of its processes.
func searchFor(t testing.TB, sandbox *launcher.Sandbox, text string) {
	t.Helper()
	info, err := sandbox.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = filepath.WalkDir(info.Workdir, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			if content, err := os.ReadFile(name); err == nil && bytes.Contains(content, []byte(text)) {
				t.Errorf("%s has the secret", name)
			}
		}
		return nil
	})
	env := in(t, sandbox, "env; cat /proc/self/environ")
	if strings.Contains(env, text) || !strings.Contains(env, "TOKEN=podagent-secret-TOKEN-") {
		t.Errorf("the environment: %s", env)
	}
}

func TestJavaTrustsTheCA(t *testing.T) {
	for _, program := range []string{"javac", "keytool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	v.let(t, sandbox, nil)
	source := `
import java.io.*; import java.net.*;
class Main { public static void main(String[] a) throws Exception {
	URI proxy = new URI(System.getenv("HTTPS_PROXY"));
	HttpURLConnection c = (HttpURLConnection) new URL(System.getenv("URL")).openConnection(new Proxy(Proxy.Type.HTTP, new InetSocketAddress(proxy.getHost(), proxy.getPort())));
	c.setRequestProperty("Authorization", "Bearer " + System.getenv("TOKEN"));
	c.getInputStream().transferTo(System.out);
}}`
	if err := sandbox.WriteFile(t.Context(), "Main.java", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	got := in(t, sandbox, "java Main.java", "URL="+v.url())
	if !strings.Contains(got, "let in by HTTP") || strings.Contains(got, secretValue) {
		t.Error(got)
	}
}

func TestGitUsesASecretThatItNeverHas(t *testing.T) {
	big := make([]byte, 3_000_000)
	_, _ = rand.Read(big) // it never fails
	dir := gittest.Repository(t, string(big))
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, gittest.Handler(t, dir))
	v.let(t, sandbox, nil)
	// The push is by HTTP/1.1, since one by HTTP/2 has been seen to stand still (docs/egress.md), and in
	// one piece, since CGI takes no others.
	got := in(t, sandbox, `set -e
		export GIT_TERMINAL_PROMPT=0
		git -c credential.helper= clone -q https://me:$TOKEN@${URL#https://}/r.git c
		cd c && head -c 2000000 /dev/urandom > more && git add . && git -c user.name=a -c user.email=a@b.c commit -qm two
		git -c http.version=HTTP/1.1 -c http.postBuffer=16000000 push -q origin main
		git rev-parse HEAD`, "URL="+v.url())
	if head := gittest.Run(t, filepath.Join(dir, "r.git"), "rev-parse", "main"); strings.TrimSpace(got) != head {
		t.Errorf("the sandbox says %q, the server has %q", got, head)
	}
	searchFor(t, sandbox, secretValue)
}

// A model reads neither the value nor the placeholder, and its commands use the credential.
func TestToolsRedactTheValueAndThePlaceholder(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	s := v.let(t, sandbox, nil)
	session := tools.New(sandbox, tools.Options{Redact: s.Redact()}, tools.Coding()...)
	call := func(script string) string {
		input, err := json.Marshal(map[string]string{"command": script})
		if err != nil {
			t.Fatal(err)
		}
		result, err := session.Call(t.Context(), "Bash", input)
		if err != nil {
			t.Fatal(err)
		}
		return result.Text()
	}
	placeholder := strings.TrimSpace(in(t, sandbox, "echo $TOKEN"))
	got := call("env; cat secrets/token; echo " + secretValue)
	if strings.Contains(got, placeholder) || strings.Contains(got, secretValue) {
		t.Errorf("the model reads %s", got)
	}
	if !strings.Contains(got, "TOKEN=[REDACTED:TOKEN_PLACEHOLDER]") || !strings.Contains(got, "[REDACTED:TOKEN]\n") {
		t.Errorf("the model does not read what is left out: %s", got)
	}
	if got := call(`curl -sS -u "me:$TOKEN" ` + v.url()); !strings.Contains(got, "let in by HTTP") {
		t.Error(got)
	}
}

// The bundle has the roots that the image has.
func TestBundleHasTheImagesRootsToo(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	s := v.let(t, sandbox, nil)
	count := `grep -c "BEGIN CERT" "$SSL_CERT_FILE" && grep -c "BEGIN CERT" "$NODE_EXTRA_CA_CERTS" && cat "$SSL_CERT_FILE" "$NODE_EXTRA_CA_CERTS" | wc -c`
	first := in(t, sandbox, count)
	var roots, own, size int
	if _, err := fmt.Sscan(first, &roots, &own, &size); err != nil || roots < 2 || own != 1 {
		t.Fatalf("%q, %v", first, err)
	}
	// Another far end of the same sandbox takes the image's roots, not those of the first.
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	s = v.let(t, sandbox, nil)
	if again := in(t, sandbox, count); again != first {
		t.Errorf("another far end has %q, the first had %q", again, first)
	}
	dir := filepath.Dir(strings.TrimSpace(in(t, sandbox, `echo "$SSL_CERT_FILE"`)))
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s stays on this machine: %v", dir, err)
	}
}

func TestReplicasOfOneSeedAreTheSameToASandbox(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	v := newVault(t, greeting)
	seeded := func(o *egress.Options) { o.Seed = []byte("sixteen bytes at least") }
	first := v.let(t, sandbox, seeded)
	dir := filepath.Dir(strings.TrimSpace(in(t, sandbox, `echo "$SSL_CERT_FILE"`)))
	t.Cleanup(func() { os.RemoveAll(dir) }) // which replicas leave to each other
	// What began under one goes on under the other.
	cmd := sandbox.Shell(t.Context(), `read go; curl -sS -u "me:$TOKEN" $URL`)
	cmd.Env = []string{"URL=" + v.url()}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	v.let(t, sandbox, func(o *egress.Options) { seeded(o); o.Generation = 2 })
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	fmt.Fprintln(stdin, "go")
	stdin.Close()
	if err := cmd.Wait(); err != nil || !strings.HasPrefix(out.String(), "let in by HTTP") {
		t.Errorf("%s, %v", &out, err)
	}
}

func TestBadSecretsServeNothing(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	for want, change := range map[string]func(*egress.Options){
		"shorter than 8 bytes":                func(o *egress.Options) { o.Secrets[0].Value = []byte("1") },
		"the seed has 3 bytes":                func(o *egress.Options) { o.Seed = []byte("abc") },
		"the placeholder of credential TOKEN": func(o *egress.Options) { o.Secrets[0].File = "/proc/token" },
	} {
		opts := egress.Options{Secrets: []egress.Secret{{Name: "TOKEN", Value: []byte(secretValue), Hosts: policy(t, secretHost).Allow}}}
		change(&opts)
		if s, err := egress.Serve(t.Context(), sandbox.Client, opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
			if s != nil {
				s.Close()
			}
		}
	}
}
