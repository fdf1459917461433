package egress_test

import (
	"context"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/podagent/podagent/internal/gittest"
	"github.com/podagent/podagent/pkg/egress"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
)

// A launch that checks out by the way out needs its far end before.
func TestLaunchChecksOutByTheWayOut(t *testing.T) {
	server := httptest.NewServer(gittest.Handler(t, gittest.Repository(t, "content\n")))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var far *egress.Server
	spec := launcher.Spec{Egress: wayout.Config{Mode: wayout.Mode(wayout.Landlock)}, Git: &launcher.Git{
		URL: "http://git.example:" + port + "/r.git", Password: "a token",
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
