package e2e

// What goes on in pods whose commands leave by the proxy alone, and the command beside their agents.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The agent is reached all the same, by each connection and both ways through it, and the loopback
// is free.
func TestPodWhoseNetworkLeadsNowhereServes(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		applyEgress(t, c)
		s := harness.Launch(t, c.Launcher(), closed(c, "closed"))
		checkServes(t, s)
		startEcho(t, s)
		loopback := netip.MustParseAddr("127.0.0.1")
		for _, protocol := range []string{"tcp", "udp"} {
			if to := (target{protocol, netip.AddrPortFrom(loopback, otherPort)}); !reaches(t, s, to) {
				t.Errorf("a command does not reach %s", to)
			}
		}
		d, err := c.Launcher().Describe(t.Context(), "closed")
		if err != nil || d.Agent == nil || d.Agent.Egress.Level != wayout.Network || d.Agent.Egress.Port == 0 {
			t.Errorf("it is described as %+v, %v", d.Agent, err)
		}
	})
}

func TestFencedPodServes(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	checkServes(t, harness.Launch(t, c.Launcher(), fenced(c, "fenced")))
}

// fenced is a Spec of a sandbox whose commands are behind a fence.
func fenced(c *launchertest.Cluster, id string) launcher.Spec {
	spec := c.Spec(id)
	spec.Egress = wayout.Config{Mode: wayout.Mode(wayout.Landlock), Require: wayout.Landlock}
	return spec
}

// checkServes reaches a server in a sandbox, by Dial and by a forwarded port, and uses a terminal.
func checkServes(t *testing.T, s *launcher.Sandbox) {
	t.Helper()
	ports := harness.StartServer(t, s)
	if got := fetch(t, browser(t, s, ports["http"]), "/"); got != "hello\n" {
		t.Errorf("by Dial, a server answers %q", got)
	}
	f := forward(t, s, ports["http"])
	answer, err := http.Get("http://" + f.address)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); string(body) != "hello\n" || err != nil {
		t.Errorf("by a forwarded port, it answers %q, %v", body, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	size := podapi.TerminalSize{Rows: 24, Columns: 80}
	x := openTerminal(t, program(ctx, s, size, "bash", "-c", `stty size; read -r line; echo "got $line"`), size)
	x.awaitRow(t, 0, "24 80")
	x.press(t, "hello\r")
	x.awaitRow(t, 2, "got hello")
	x.end(t)
}

// mainThatLeaves is a command beside the agent, which tries to tell a server its name as soon as it
// starts. Then it writes how that ended.
func mainThatLeaves(name, server string) []string {
	at := netip.MustParseAddrPort(server)
	script := fmt.Sprintf(`exec 2>/dev/null; (printf %s > /dev/tcp/%s/%d); echo $? > main; exec sleep infinity`, name, at.Addr(), at.Port())
	return []string{"bash", "-c", script}
}

// The command beside the agent begins with the pod. It runs once the level is proved, and not before.
func TestCommandBesideTheAgentLeavesByTheProxyAlone(t *testing.T) {
	t.Parallel()
	c, elsewhere := launchertest.OwnCluster(t, launcher.Restricted), launchertest.NewCluster(t, launcher.Restricted)
	o := newOutside(t, c)
	applyEgress(t, c)
	for name, test := range map[string]struct {
		cluster *launchertest.Cluster
		spec    launcher.Spec
		leaves  bool
	}{
		"open":     {elsewhere, elsewhere.Spec("open"), true},
		"landlock": {elsewhere, fenced(elsewhere, "landlock"), false},
		"network":  {c, closed(c, "network"), false},
	} {
		test.spec.Pod.Main = mainThatLeaves(name, replaced(o, "{node}"))
		s := harness.Launch(t, test.cluster.Launcher(), test.spec)
		var status string
		harness.Await(t, "the end of its try", func() bool {
			data, err := s.ReadFile(t.Context(), "main")
			status = string(data)
			return err == nil && status != ""
		})
		if test.leaves {
			harness.Await(t, "its message", func() bool { return o.take()[name] })
		} else if arrived := o.take()[name]; arrived || status == "0\n" {
			t.Errorf("%s: it leads out: %v, status %q", name, arrived, status)
		}
	}
}

// Where a required level is not there, no pod is left, and the command beside the agent never ran: here
// without a policy, and under gVisor, which has no Landlock.
func TestPodThatLetsCommandsOutIsNotMade(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	o := newOutside(t, c)
	k, other := c.Launcher(), c.By(t, launcher.ByExec).Launcher()
	network, landlock := closed(c, "network"), fenced(c, "landlock")
	landlock.Pod.RuntimeClass = gVisor
	for name, test := range map[string]struct {
		launcher *launcher.Kubernetes
		spec     launcher.Spec
		why      string
	}{
		"network":  {k, network, "the network leads out of the sandbox: "},
		"landlock": {other, landlock, "the way out must be of the level landlock"},
	} {
		test.spec.Pod.Main = mainThatLeaves(name, replaced(o, "{node}"))
		_, err := test.launcher.Launch(t.Context(), test.spec)
		if e, ok := errors.AsType[*launcher.PodError](err); !ok || !errors.Is(e.Class, launcher.ErrEgress) || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: launching it: %v", name, err)
		}
		if n := harness.SandboxPods(t, c, name); n != 0 {
			t.Errorf("%s: %d pods are left", name, n)
		}
		if o.take()[name] {
			t.Errorf("%s: the command ran", name)
		}
	}
}
