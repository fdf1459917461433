package remote_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/remote"
)

// A gateway that ends tells the callers of commands to go on with another one, and they do.
func TestCommandGoesOnWhenItsGatewayEnds(t *testing.T) {
	local := launchertest.Local(t)
	var now atomic.Pointer[gateway.Gateway] // who serves at the address
	front := func(h http.Handler) http.Handler {
		now.Store(h.(*gateway.Gateway))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) })
	}
	l := &remote.Launcher{URL: serve(t, local, front), Token: token}
	s, err := l.Launch(t.Context(), launcher.Spec{ID: "job-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	cmd := s.Shell(t.Context(), "echo begun; read line; echo $line")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	first := now.Load()
	serve(t, local, front)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := first.Shutdown(ended); err != nil {
		t.Error(err)
	}
	fmt.Fprintln(in, "goes on")
	if lines.Scan(); lines.Text() != "goes on" {
		t.Errorf("%q, %v", lines.Text(), lines.Err())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
