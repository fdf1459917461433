package remote_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podagent/podagent/pkg/gateway"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/launcher/remote"
)

// A gateway that ends tells the callers of commands to go on with another one, and they do: also when
// that one cannot reach the sandbox yet.
func TestCommandGoesOnWhenItsGatewayEnds(t *testing.T) {
	local := launchertest.Local(t)
	var now atomic.Pointer[gateway.Gateway] // who serves at the address
	var notReady atomic.Int32               // so many starts of commands are refused
	front := func(h http.Handler) http.Handler {
		now.Store(h.(*gateway.Gateway))
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/Exec") && notReady.Add(-1) >= 0 {
				refuseNotReady(t, w)
				return
			}
			now.Load().ServeHTTP(w, r)
		})
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
	notReady.Store(2)
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

// A command that was never sent fails as any call does: nobody waits for it.
func TestStartThatIsRefusedFails(t *testing.T) {
	var starts atomic.Int32
	refusing := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/Exec") {
				starts.Add(1)
				refuseNotReady(t, w)
				return
			}
			h.ServeHTTP(w, r)
		})
	}
	l := &remote.Launcher{URL: serve(t, launchertest.Local(t), refusing), Token: token}
	s, err := l.Launch(t.Context(), launcher.Spec{ID: "job-1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Shell(t.Context(), "true").Run(); !errors.Is(err, launcher.ErrNotReady) || starts.Load() != 1 {
		t.Errorf("%d starts: %v", starts.Load(), err)
	}
}

// refuseNotReady answers a call of podapi as a gateway does that cannot reach the sandbox yet.
func refuseNotReady(t *testing.T, w http.ResponseWriter) {
	st, err := status.New(codes.Unavailable, "not ready").WithDetails(&errdetails.ErrorInfo{Reason: "not_ready", Domain: "podagent.gateway"})
	if err != nil {
		t.Error(err)
		return
	}
	details, err := proto.Marshal(st.Proto())
	if err != nil {
		t.Error(err)
		return
	}
	for name, value := range map[string]string{
		"Content-Type": "application/grpc", "Grpc-Status": "14", "Grpc-Message": "not ready",
		"Grpc-Status-Details-Bin": base64.RawStdEncoding.EncodeToString(details),
	} {
		w.Header().Set(name, value)
	}
}
