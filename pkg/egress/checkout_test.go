package egress_test

import (
	"context"
	"net"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// A launch that checks out by the way out needs its far end before.
func TestLaunchChecksOutByTheWayOut(t *testing.T) {
	port := gitServer(t)
	var far *egress.Server
	spec := launcher.Spec{Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}, Git: &launcher.Git{
		URL: "http://git.example:" + port + "/one.git", Password: "a token",
		Before: func(ctx context.Context, s *launcher.Sandbox) (err error) {
			far, err = egress.Serve(context.WithoutCancel(ctx), s.Client, egress.Options{Policy: policy(t, "git.example=127.0.0.1:"+port)})
			return err
		},
	}}
	sandbox, err := launchertest.Local(t).Launch(t.Context(), spec)
	if far != nil {
		defer far.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close()
	if out, err := sandbox.Command(t.Context(), "cat", "file").Output(); string(out) != "content\n" || err != nil {
		t.Errorf("the checkout has %q, %v", out, err)
	}
}

// gitServer serves a repository one.git over HTTP, and returns its port.
func gitServer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := `git init -q -b main work && cd work && echo content > file && git add file &&
		git -c user.name=a -c user.email=a@example.com commit -qm one && git clone -q --bare . ../one.git`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	})
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
