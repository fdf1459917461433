package e2e

// What programs of a pod do by the way out, with servers outside of the cluster.

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/internal/recipetest"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// TestProgramsOfAPodUseTheWayOut runs the recipes of docs/egress.md, each with a host that is allowed
// and with one that is not.
func TestProgramsOfAPodUseTheWayOut(t *testing.T) {
	for _, level := range []wayout.Level{wayout.Network, wayout.Landlock} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			s, w := launchPrograms(t, launchertest.NewCluster(t, launcher.Restricted), level)
			env := recipetest.Install(t, s.Client, s.Workdir)
			town := recipetest.Serve(t, nil)
			harness.Put(t, s, "roots.pem", town.PEM)
			env = append(env, recipetest.Trust(s.Workdir+"/roots.pem")...)
			out := letOut(t, s, egress.Options{}, town.Rules()...)
			for _, r := range recipetest.InPods() {
				t.Run(r.Program, func(t *testing.T) { r.Check(t, s.Client, town.Port, env, out.decided) })
			}
			t.Run("past the proxy", func(t *testing.T) { goPastTheProxy(t, s, out, town.Port, env) })
			t.Run("patience", func(t *testing.T) { knowPatience(t, s, level) })
			out.Close()
			t.Run("a cut", func(t *testing.T) { cutTheWayOut(t, s, w) })
		})
	}
}

// goPastTheProxy runs recipes without the variables of the proxy: nothing gets out. Left out is what tries
// for long when a name does not resolve.
func goPastTheProxy(t *testing.T, s *launcher.Sandbox, out *farEnd, port int, env []string) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy", "NODE_USE_ENV_PROXY"} {
		env = append(env, name+"=")
	}
	for _, r := range recipetest.Recipes {
		if !slices.Contains([]string{"curl", "git", "python3", "node"}, r.Program) {
			continue
		}
		before := len(out.decided(r.Host))
		text, err := recipetest.Run(t.Context(), s.Client, r.Script, r.Host, port, env...)
		t.Logf("%s: %v, %s", r.Program, err, text)
		if err == nil || strings.Contains(text, r.Want) || len(out.decided(r.Host)) != before {
			t.Errorf("%s ends with %v, and printed %s; the decisions were %q", r.Program, err, text, out.decided(r.Host)[before:])
		}
	}
}

// knowPatience looks what programs are told of how long to wait for names, since nobody answers. At the
// level landlock they need not be told: there is no UDP.
func knowPatience(t *testing.T, s *launcher.Sandbox, level wayout.Level) {
	out, errOut, status := harness.Run(t, s, `printf %s "$RES_OPTIONS"`, nil)
	want := ""
	if level == wayout.Network {
		want = "timeout:1 attempts:1"
	}
	if out != want {
		t.Errorf("%q, want %q; %s, %+v", out, want, errOut, status)
	}
}

// launchPrograms launches a pod of a level, whose image has many programs. Its connection can be cut.
func launchPrograms(t *testing.T, c *launchertest.Cluster, level wayout.Level) (*launcher.Sandbox, *harness.Wire) {
	t.Helper()
	if level == wayout.Network {
		applyEgress(t, c)
	}
	w, l := harness.WireTo(t, c)
	spec := c.Spec("programs")
	spec.Pod.Image = launchertest.ProgramsImage
	spec.Egress = wayout.Config{Mode: wayout.Mode(level), Require: level}
	return harness.Launch(t, l, spec), w
}

// farEnd is the far end of a sandbox's way out, and what it has decided.
type farEnd struct {
	*egress.Server
	mu        sync.Mutex
	decisions []egress.Decision
}

// letOut serves the way out of a sandbox with these rules.
func letOut(t *testing.T, s *launcher.Sandbox, opts egress.Options, rules ...string) *farEnd {
	t.Helper()
	for _, text := range rules {
		rule, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		opts.Policy.Allow = append(opts.Policy.Allow, rule)
	}
	f := &farEnd{}
	opts.Log = func(d egress.Decision) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.decisions = append(f.decisions, d)
	}
	var err error
	if f.Server, err = egress.Serve(context.Background(), s.Client, opts); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// decided returns the verdict and the reason of each try of a host.
func (f *farEnd) decided(host string) (decided []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, d := range f.decisions {
		if d.Host == host {
			decided = append(decided, string(d.Verdict)+":"+d.Reason)
		}
	}
	return decided
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }

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
	defer letOut(t, s, egress.Options{}, fmt.Sprintf("example.com=127.0.0.1:%d", portOf(server))).Close()
	// It ends with the connection, and so must not take a cut for the end, nor another answer for the content.
	script := fmt.Sprintf(`set -o pipefail; address=${HTTP_PROXY#http://}; exec 3<>/dev/tcp/${address%%:*}/${address#*:} &&
		printf 'GET http://example.com:%d/ HTTP/1.0\r\n\r\n' >&3 && read -r version status reason <&3 &&
		if [ "$status" = 200 ]; then tail -c %d <&3 | sha256sum; else cat <&3; exit 1; fi`, portOf(server), len(content))
	download := func() (string, error) {
		out, err := s.Command(t.Context(), "bash", "-c", script).CombinedOutput()
		return string(out), err
	}
	cut.Store(true)
	if out, err := download(); err == nil || !strings.Contains(out, "reset") {
		t.Errorf("with a cut: %v, %s", err, out)
	}
	var out string
	harness.Await(t, "a download after the cut", func() bool { // the proxy may say "try again" until the far end is back
		var err error
		out, err = download()
		return err == nil
	})
	if out != fmt.Sprintf("%x  -\n", sha256.Sum256(content)) {
		t.Errorf("then: %s", out)
	}
}
