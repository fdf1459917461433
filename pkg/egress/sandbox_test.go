package egress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/egress/farend"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
)

func TestMain(m *testing.M) {
	switch serves, err := egress.ServesAsFarEnd(); {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case !serves:
		os.Exit(launchertest.Main(m))
	}
}

// policy is that of rules.
func policy(t testing.TB, rules ...string) (p egress.Policy) {
	t.Helper()
	for _, text := range rules {
		rule, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		p.Allow = append(p.Allow, rule)
	}
	return p
}

// serve makes the test the far end of a sandbox.
func serve(t testing.TB, sandbox *launcher.Sandbox, opts egress.Options) *egress.Server {
	t.Helper()
	s, err := egress.Serve(context.Background(), sandbox.Client, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// server is an HTTP server, and its port.
func server(t testing.TB, answer string) (port int) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// curl runs it in a sandbox.
func curl(t testing.TB, sandbox *launcher.Sandbox, args ...string) string {
	t.Helper()
	out, err := sandbox.Command(t.Context(), "curl", append([]string{"-sS"}, args...)...).CombinedOutput()
	return fmt.Sprintf("%s%v", out, err)
}

func TestCommandsOfASandboxReachAllowedHostsAlone(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	s := serve(t, sandbox, egress.Options{})
	if got := curl(t, sandbox, "http://allowed.example/"); !strings.Contains(got, "no rule allows allowed.example") {
		t.Errorf("without a rule: %s", got)
	}
	port := server(t, "the answer")
	s.SetPolicy(policy(t, fmt.Sprintf("allowed.example=127.0.0.1:%d", port)))
	if got := curl(t, sandbox, fmt.Sprintf("http://allowed.example:%d/", port)); got != "the answer<nil>" {
		t.Errorf("an allowed host: %s", got)
	}
	if got := curl(t, sandbox, "-p", "-x", "", fmt.Sprintf("http://127.0.0.1:%d/", port)); got != "the answer<nil>" {
		t.Errorf("the loopback, around the proxy: %s", got)
	}
	if got := curl(t, sandbox, "http://other.example/"); !strings.Contains(got, "no rule allows other.example") {
		t.Errorf("another host: %s", got)
	}
}

func TestFarEndThatWantsItsOwnPolicyDoesNotStandBy(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	first := serve(t, sandbox, egress.Options{})
	if _, err := egress.Serve(t.Context(), sandbox.Client, egress.Options{Exclusive: true}); !errors.Is(err, farend.ErrServed) {
		t.Errorf("a second far end: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	second := serve(t, sandbox, egress.Options{Exclusive: true})
	serve(t, sandbox, egress.Options{Generation: 1})
	<-second.Done()
	if err := second.Close(); !errors.Is(err, farend.ErrServed) {
		t.Errorf("it ended with %v", err)
	}
}

func TestFilesOfPlaceholdersAreThoseOfWhoServes(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	rules := policy(t, "api.example=127.0.0.1:1").Allow
	opts := egress.Options{Secrets: []egress.Secret{{Name: "TOKEN", File: sandbox.Workdir + "/token", Value: []byte("a secret of some length"), Hosts: rules}}}
	content := func() string {
		data, err := sandbox.ReadFile(t.Context(), "token")
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	served := serve(t, sandbox, opts)
	first := content()
	if !strings.Contains(first, "TOKEN") {
		t.Errorf("the file has %q", first)
	}
	if err := serve(t, sandbox, opts).Close(); err != nil { // it stands by, with placeholders of its own
		t.Error(err)
	}
	if got := content(); got != first {
		t.Errorf("after another has stood by, the file has %q, not %q", got, first)
	}
	if err := served.Close(); err != nil {
		t.Error(err)
	}
	if _, err := sandbox.Lstat(t.Context(), "token"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after its end: %v", err)
	}
}

// What somebody else has put in a placeholder's place stays, whatever it is.
func TestFilesThatArePlaceholdersNoMoreStay(t *testing.T) {
	sandbox := launchertest.Sandbox(t)
	rules := policy(t, "api.example=127.0.0.1:1").Allow
	opts := egress.Options{}
	for _, name := range []string{"same", "changed", "longer", "link", "pipe"} {
		opts.Secrets = append(opts.Secrets, egress.Secret{
			Name: name, File: sandbox.Workdir + "/" + name, Value: []byte("a secret of some length"), Hosts: rules,
		})
	}
	s := serve(t, sandbox, opts)
	if got := in(t, sandbox, "tr a b <changed >new; mv new changed; echo >>longer; mv link target; ln -s target link; rm pipe; mkfifo pipe"); got != "" {
		t.Fatal(got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := in(t, sandbox, "ls"); got != "changed\nlink\nlonger\npipe\ntarget\n" {
		t.Errorf("there are %q", got)
	}
}
