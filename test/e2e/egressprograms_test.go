package e2e

// What programs of a pod do by the way out, with servers outside of the cluster.

import (
	"context"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestProgramsOfAPodUseTheWayOut(t *testing.T) {
	for _, level := range []wayout.Level{wayout.Network, wayout.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			c := launchertest.NewCluster(t, launcher.Restricted)
			if level == wayout.Network {
				applyEgress(t, c)
			}
			w, l := harness.WireTo(t, c)
			spec := c.Spec("programs")
			spec.Egress = wayout.Config{Mode: wayout.Mode(level), Require: level}
			s := harness.Launch(t, l, spec)
			t.Run("git", func(t *testing.T) { cloneByTheWayOut(t, s) })
			t.Run("a cut", func(t *testing.T) { cutTheWayOut(t, s, w) })
		})
	}
}

// letOut serves the way out of a sandbox to a name at one port of this machine. It returns what
// ends that.
func letOut(t *testing.T, s *launcher.Sandbox, name string, port int) (end func()) {
	t.Helper()
	rule, err := egress.ParseRule(fmt.Sprintf("%s=127.0.0.1:%d", name, port))
	if err != nil {
		t.Fatal(err)
	}
	server, err := egress.Serve(context.Background(), s.Client, egress.Options{Policy: egress.Policy{Allow: []egress.Rule{rule}}})
	if err != nil {
		t.Fatal(err)
	}
	return func() { server.Close() }
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }

// cloneByTheWayOut clones by HTTPS from git's own server: from the name that is allowed, and from
// another one.
func cloneByTheWayOut(t *testing.T, s *launcher.Sandbox) {
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", `git init -q w && cd w && echo hello >file && git add file &&
		git -c user.name=n -c user.email=e@e commit -qm m && git clone -q --bare . ../r.git && git --exec-path`)
	cmd.Dir = dir
	path, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	defer server.Close()
	defer letOut(t, s, "example.com", portOf(server))()
	harness.Put(t, s, "roots.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	const clone = "GIT_SSL_CAINFO=$PWD/roots.pem git clone -q https://%s:%d/r.git %[1]s && cat %[1]s/file"
	out, errOut, status := harness.Run(t, s, fmt.Sprintf(clone, "example.com", portOf(server)), nil)
	if out != "hello\n" {
		t.Errorf("an allowed host: %q, %s, %+v", out, errOut, status)
	}
	out, errOut, status = harness.Run(t, s, fmt.Sprintf(clone, "evil.example", portOf(server)), nil)
	if status.Code == 0 || !strings.Contains(errOut, "403") {
		t.Errorf("another host: %q, %s, %+v", out, errOut, status)
	}
}

// cutTheWayOut cuts the connection to the pod while a program downloads: it sees an error, and the
// next download works.
func cutTheWayOut(t *testing.T, s *launcher.Sandbox, w *harness.Wire) {
	content := make([]byte, 8<<20)
	var cut atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = rw.Write(content[:len(content)/2]) // the program says what it lacks
		if cut.CompareAndSwap(true, false) {
			w.Reset()
		}
		_, _ = rw.Write(content[len(content)/2:])
	}))
	defer server.Close()
	defer letOut(t, s, "example.com", portOf(server))()
	// It ends with the connection, and so must not take a cut for the end.
	script := fmt.Sprintf(`set -o pipefail; address=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${address%%:*}/${address#*:} &&
		printf 'GET http://example.com:%d/ HTTP/1.0\r\n\r\n' >&3 && tail -c %d <&3 | sha256sum`, portOf(server), len(content))
	download := func() (string, error) {
		out, err := s.Command(t.Context(), "bash", "-c", script).CombinedOutput()
		return string(out), err
	}
	cut.Store(true)
	if out, err := download(); err == nil || !strings.Contains(out, "reset") {
		t.Errorf("with a cut: %v, %s", err, out)
	}
	if out, err := download(); err != nil || out != fmt.Sprintf("%x  -\n", sha256.Sum256(content)) {
		t.Errorf("then: %v, %s", err, out)
	}
}
