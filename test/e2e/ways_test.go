package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about the ways to reach the agents of pods: by
// port-forward, by exec and by address. Tests elsewhere that check a connection's
// promises run over each way, too.

// overEachWay runs a test over each way in parallel, each in its own namespace.
func overEachWay(t *testing.T, test func(t *testing.T, c *launchertest.Cluster)) {
	overEachWayOf(t, launchertest.NewCluster, test)
}

// overEachWayHarmed does the same for tests that harm the agents of their pods.
func overEachWayHarmed(t *testing.T, test func(t *testing.T, c *launchertest.Cluster)) {
	overEachWayOf(t, launchertest.OwnCluster, test)
}

func overEachWayOf(t *testing.T, cluster func(testing.TB, launcher.Profile) *launchertest.Cluster, test func(t *testing.T, c *launchertest.Cluster)) {
	t.Parallel()
	for _, way := range launcher.Connections() {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			test(t, cluster(t, launcher.Restricted).By(t, way))
		})
	}
}

func TestServerWithoutWebSocketIsReachedBySPDY(t *testing.T) {
	t.Parallel()
	for _, way := range []launcher.Connection{launcher.ByPortForward, launcher.ByExec} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			size := harness.Size(256 << 20)
			c := launchertest.NewCluster(t, launcher.Restricted).By(t, way)
			g, kubeconfig := newGate(t, c)
			g.refuse(func(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") })
			k := c.Launcher()
			k.Config, k.Kubeconfig = nil, kubeconfig
			s := harness.Launch(t, k, c.Spec("a"))
			upload(t, s, "file", size, 5)
			harness.Download(t, s, "file", size, 5)
			if out, _, status := harness.Run(t, s, "echo out; exit 3", nil); out != "out\n" || status.Code != 3 {
				t.Errorf("a command: %q, %+v", out, status)
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			if g.refusals == 0 {
				t.Error("no WebSocket was asked for")
			}
		})
	}
}

func Test1000ExecsOverEachWay(t *testing.T) {
	const execs, atOnce = 1000, 20
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		s := harness.Launch(t, c.Launcher(), c.Spec("a"))
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				for j := i; j < execs; j += atOnce {
					out, err := s.Command(t.Context(), "echo", fmt.Sprint(j)).Output()
					if string(out) != fmt.Sprintln(j) || err != nil {
						t.Errorf("exec %d: %q, %v", j, out, err)
					}
				}
			})
		}
		all.Wait()
	})
}

func TestPodWithoutAListenerIsNotReachedByItsAddress(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	l := c.By(t, launcher.ByAddress).Launcher()
	if _, err := l.Launch(t.Context(), c.Spec("a")); !errors.Is(err, launcher.ErrNoListener) || !errors.Is(err, launcher.ErrDrift) {
		t.Errorf("launching it: %v", err)
	}
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrNoListener) {
		t.Errorf("opening it: %v", err)
	}
	d, err := l.Describe(t.Context(), "a")
	if err != nil || d.Connection != launcher.ByAddress || !errors.Is(d.AgentErr, launcher.ErrNoListener) {
		t.Errorf("describing it: %v, by %s: %v", err, d.Connection, d.AgentErr)
	}
}

// joined matches the ids of the processes of podagent connect.
const joined = `for p in /proc/[0-9]*; do
	[ "$(tr '\0' ' ' 2>/dev/null < $p/cmdline)" != "podagent connect " ] || echo ${p#/proc/}
done`

func TestExecLeavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	w, l := harness.WireTo(t, c.By(t, launcher.ByExec))
	s := harness.Launch(t, l, c.Spec("a"))
	other, err := c.Launcher().Open(t.Context(), "a") // by port-forward, which needs no process
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	processes := func() []string {
		out, _, _ := harness.Run(t, other, joined, nil)
		return strings.Fields(out)
	}
	first := processes()
	if len(first) != 1 {
		t.Fatalf("while the sandbox is open the processes are %q", first)
	}
	w.Reset()
	harness.Await(t, "another connection", func() bool { // the call that meets the reset is cut
		err := s.WriteFile(t.Context(), "file", nil, 0o666)
		return err == nil
	})
	harness.Await(t, "the end of the first process", func() bool {
		now := processes()
		return len(now) == 1 && now[0] != first[0]
	})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	harness.Await(t, "the end of the second process", func() bool { return len(processes()) == 0 })
}

func TestExecNeedsItsOwnRole(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	harness.Launch(t, c.Launcher(), c.Spec("a"))
	l := c.Launcher()
	l.Connection = launcher.ByExec
	if _, err := l.Open(t.Context(), "a"); !errors.Is(err, launcher.ErrForbidden) {
		t.Errorf("without it: %v", err)
	}
	c.By(t, launcher.ByExec)
	s, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestAddressThatLetsNobodyThroughIsSaid(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	l, spec := c.Launcher(), c.Spec("a")
	harness.Launch(t, c.Launcher(), spec)
	spec.Take.ReadyTimeout = 20 * time.Second // enough time for a try on any machine
	l.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, os.ErrDeadlineExceeded }
	if _, err := l.Launch(t.Context(), spec); !errors.Is(err, launcher.ErrNotReady) || !strings.Contains(err.Error(), "cannot connect to the address of pod "+c.Namespace) {
		t.Errorf("launching it: %v", err)
	}
	// A busy machine may not get to a try until then, nor to what the pod does.
	harness.Await(t, "an error until a deadline", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := l.Open(ctx, "a")
		if err == nil {
			t.Fatal("it was opened")
		}
		return errors.Is(err, context.DeadlineExceeded) && errors.Is(err, launcher.ErrNotReady) &&
			strings.Contains(err.Error(), "cannot connect to the address of pod "+c.Namespace) && strings.Contains(err.Error(), "Running")
	})
}

func TestBadOptionOfALauncherIsAnErrorBeforeAnyAPICall(t *testing.T) {
	t.Parallel()
	for field, l := range map[string]*launcher.Kubernetes{
		"Connection":     {Connection: "carrier-pigeon"},
		"Namespace":      {Namespace: "Not_a_name"},
		"IdentitySecret": {IdentitySecret: "not/a/name"},
	} {
		l.Config = &rest.Config{Host: "https://127.0.0.1:1"}
		_, err := l.Open(t.Context(), "a")
		if spec, ok := errors.AsType[*launcher.SpecError](err); !ok || spec.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
