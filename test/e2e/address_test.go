package e2e

// Reaching agents by their pods' addresses, and no impostor there.

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wire"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// impostor listens at a pod's address and claims to be the pod's agent.
type impostor struct {
	net.Listener
	asked atomic.Int64 // number of connections
	told  atomic.Int64 // number of bytes received
}

func newImpostor(t *testing.T, podUID string, key wire.AuthorizedKey) *impostor {
	t.Helper()
	config, err := wire.AgentTLS(podUID, wire.NewAccepted([]wire.AuthorizedKey{key}))
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	i := &impostor{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go i.serve(conn)
		}
	}()
	return i
}

// serve begins as an HTTP/2 server does, because the client waits for that.
func (i *impostor) serve(conn net.Conn) {
	defer conn.Close()
	if err := conn.(*tls.Conn).Handshake(); err != nil {
		return
	}
	i.asked.Add(1)
	if _, err := conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}); err != nil {
		return
	}
	for p := make([]byte, 512); ; {
		n, err := conn.Read(p)
		i.told.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// The pod's UID is no secret. A server with that UID at the pod's address must not
// be taken for the agent if its key differs from the one that the API server shows.
func TestImpostorAtThePodsAddressIsNotCalled(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	s := harness.Launch(t, c.Launcher(), c.Spec("a"))
	i := newImpostor(t, string(podOf(t, c, "a").UID), c.Identity.AuthorizedKey())
	w, l := harness.WireTo(t, c)
	var taken atomic.Bool
	dial := l.Dial
	l.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if taken.Load() {
			address = i.Addr().String()
		}
		return dial(ctx, network, address)
	}
	again, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	taken.Store(true)
	for what, call := range map[string]func() error{
		"opening it":   func() error { return second(l.Open(t.Context(), "a")) },
		"launching it": func() error { return second(l.Launch(t.Context(), c.Spec("a"))) },
		"a call to the open one, which was cut": func() error {
			w.Reset()
			for {
				err := second(again.Stat(t.Context(), "."))
				if !errors.Is(err, podapi.ErrUnavailable) { // the call that meets the reset is unavailable
					return err
				}
			}
		},
	} {
		before := i.asked.Load()
		if err := call(); !errors.Is(err, podapi.ErrWrongPod) || i.asked.Load() == before {
			t.Errorf("%s, after %d connections to the impostor: %v", what, i.asked.Load()-before, err)
		}
	}
	if n := i.told.Load(); n > 0 {
		t.Errorf("the impostor was sent %d bytes", n)
	}
	harness.Put(t, s, "file", "the agent still works")
	taken.Store(false)
	harness.Await(t, "the agent", func() bool { return second(again.Stat(t.Context(), "file")) == nil })
}

// second returns a call's error.
func second[A any](_ A, err error) error { return err }

// By address, the API server is asked for the agent's key when a sandbox is opened,
// and after the agent has restarted. That needs the permission.
func TestKeyAtAnAddressIsLearnedByTheAPIServer(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	g, kubeconfig := newGate(t, c)
	var forwards atomic.Int32
	g.refuse(func(r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/portforward") {
			forwards.Add(1)
		}
		return false
	})
	l := &launcher.Kubernetes{Kubeconfig: kubeconfig, Identity: &c.Identity, Connection: launcher.ByAddress}
	s := harness.Launch(t, l, c.Spec("a"))
	harness.Put(t, s, "file", "x")
	opened := forwards.Load()
	for range 100 {
		harness.Put(t, s, "file", "x")
	}
	if n := forwards.Load(); n != opened || n == 0 {
		t.Errorf("the launch took %d port-forwards, and calls %d more", opened, n-opened)
	}
	c.KillAgent(t, podUID(t, s))
	harness.Await(t, "the agent's next start", func() bool {
		err := s.WriteFile(t.Context(), "file", nil, 0o666)
		return err == nil
	})
	if forwards.Load() == opened {
		t.Error("the key of the restarted agent was not learned")
	}
	limited := *c
	limited.Orchestrator = c.LimitedAccount(t, "limited", rule("pods", "get", "list", "watch", "create", "patch", "delete"), leaseRule("get"))
	if _, err := limited.Launcher().Open(t.Context(), "a"); !errors.Is(err, launcher.ErrForbidden) || !strings.Contains(err.Error(), "portforward") {
		t.Errorf("without the permission: %v", err)
	}
}

// answering makes a launcher's requests of a kind fail with a status while on is
// set.
func answering(l *launcher.Kubernetes, status int, on *atomic.Bool, kind func(*http.Request) bool) {
	l.Config = rest.CopyConfig(l.Config)
	l.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if !on.Load() || !kind(r) {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: status, Status: http.StatusText(status), ProtoMajor: 1, ProtoMinor: 1,
				Header: http.Header{"Content-Type": {"text/plain"}}, Body: io.NopCloser(strings.NewReader("not now")), Request: r,
			}, nil
		})
	})
}

// An API server that has just started may not know permissions yet. Its refusals
// are forgiven, each time that it starts.
func TestRefusalsOfAnAPIServerThatStartsAreForgivenByAddress(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	w, l := harness.WireTo(t, c)
	var starting atomic.Bool
	var refusals atomic.Int32
	answering(l, http.StatusForbidden, &starting, func(r *http.Request) bool {
		if r.Method == http.MethodGet && refusals.Add(1)%3 == 0 { // from here on, it has started
			starting.Store(false)
		}
		return r.Method == http.MethodGet
	})
	spec := c.Spec("a")
	spec.Take.Heartbeat = launcher.HeartbeatOff
	s := harness.Launch(t, l, spec)
	for range 2 {
		before := refusals.Load()
		starting.Store(true)
		w.Reset()
		harness.Await(t, "a call", func() bool { // the call that meets the reset is cut
			_, err := s.Stat(t.Context(), ".")
			if errors.Is(err, launcher.ErrForbidden) {
				t.Fatal(err)
			}
			return err == nil
		})
		if refusals.Load() < before+3 {
			t.Error("nothing was refused")
		}
		time.Sleep(7 * time.Second) // longer than the time that one start is given
	}
}

// An agent that answers at its address may be busy, even if the API server shows
// nobody its key.
func TestReapLeavesAnAgentWhoseKeyCannotBeLearned(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	spec := c.Spec("a")
	spec.Take.Heartbeat = launcher.HeartbeatOff
	s := harness.Launch(t, c.Launcher(), spec)
	if err := s.Command(t.Context(), "sleep", "600").Start(); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the sandbox that runs", func() bool {
		list, err := c.Launcher().List(t.Context())
		return err == nil && len(list) == 1 && list[0].State == launcher.Running
	})
	g, kubeconfig := newGate(t, c)
	g.refuse(func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/portforward") })
	l := &launcher.Kubernetes{Kubeconfig: kubeconfig, Identity: &c.Identity, Connection: launcher.ByAddress}
	got, err := l.Reap(t.Context(), launcher.ReapOptions{StaleAfter: time.Nanosecond})
	if len(got) > 0 || err == nil || !strings.Contains(err.Error(), "cannot learn the key") {
		t.Errorf("reaped %v, %v", got, err)
	}
	if _, err := s.Stat(t.Context(), "."); err != nil {
		t.Error(err)
	}
}
