package e2e

// Tries to leave a pod, at both levels that keep commands from it.

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The ports of servers in pods for tries, beside otherPort.
const (
	relayPort     = 8001
	collectedPort = 8002
)

// leastControlled is how many tries lead out, at least, where nothing keeps them from it: of an open pod,
// or of the node for a program of root, in the same run. The others may have nothing to succeed with anywhere.
const leastControlled = 40

// A pod with nothing but the proxy to leave by: under a policy, or behind a fence without one. In
// each, a far end serves. A way is refused, or docs/egress.md says that the level does not stop it.
func TestNothingLeavesAPod(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	elsewhere := launchertest.NewCluster(t, launcher.Restricted)
	o := newOutside(t, c)
	a := newAllowed(t, o)
	applyEgress(t, c)

	open := harness.Launch(t, elsewhere.Launcher(), elsewhere.Spec("open"))
	spec := elsewhere.Spec("fenced")
	spec.Egress = wayout.Config{Mode: wayout.Mode(wayout.Landlock), Require: wayout.Landlock, Ports: []uint16{o.samePort(t, c)}}
	fenced := harness.Launch(t, elsewhere.Launcher(), spec)
	shut := harness.Launch(t, c.Launcher(), closed(c, "closed"))
	o.namePods(t, c, elsewhere, addressOf(t, elsewhere, "open"), addressOf(t, elsewhere, "fenced"), addressOf(t, c, "closed"))

	harness.PutProgram(t, open, "leave")
	without := o.leaveBy(t, open, "{partner}", startPartner(t, elsewhere, open, replaced(o, "{node}")))
	arrivedWithout := o.take()
	byRoot := o.leaveAsRoot(t)
	arrivedByRoot := o.take()
	for _, level := range []struct {
		*launcher.Sandbox
		cluster *launchertest.Cluster
		level   wayout.Level
	}{{shut, c, wayout.Network}, {fenced, elsewhere, wayout.Landlock}} {
		t.Run(string(level.level), func(t *testing.T) {
			if level.Egress.Level != level.level {
				t.Fatalf("its level is %+v", level.Egress)
			}
			harness.PutProgram(t, level.Sandbox, "leave")
			a.letOut(t, level.Sandbox)
			partner := startPartner(t, level.cluster, level.Sandbox, replaced(o, "{node}"))
			within := o.leaveBy(t, level.Sandbox, "{partner}", partner)
			arrived := o.take()
			controlled := 0
			for _, w := range allEgressWays() {
				leads := left(without[w.name]) || arrivedWithout[w.name]
				if leads || left(byRoot[w.name]) || arrivedByRoot[w.name] {
					controlled++
				}
				t.Run(w.name, func(t *testing.T) {
					t.Logf("without a level: %s, arrived: %v; by root: %s, arrived: %v; within: %s, arrived: %v", without[w.name], arrivedWithout[w.name], byRoot[w.name], arrivedByRoot[w.name], within[w.name], arrived[w.name])
					if !w.rare && !leads {
						t.Error("it does not lead out of an open pod")
					}
					w.check(t, level.level, within[w.name], arrived[w.name])
				})
			}
			t.Logf("%d tries lead out of an open pod, or from the node", controlled)
			if controlled < leastControlled {
				t.Errorf("only %d tries lead out of an open pod, or from the node, want %d or more", controlled, leastControlled)
			}
		})
	}
}

// check compares what came of a way with what the page says of it.
func (w egressWay) check(t *testing.T, level wayout.Level, result string, arrived bool) {
	t.Helper()
	page := w.all
	if level == wayout.Landlock {
		page = cmp.Or(w.fence, w.all)
	}
	leads := left(result) || arrived
	switch {
	case page == "" && leads:
		t.Error("it leads out")
	case page != "" && !leads:
		t.Errorf("it does not lead out, and the page says so: %q", page)
	case page != "" && !strings.Contains(egressPage(t), page):
		t.Errorf("it leads out, and the page does not say so: %q", page)
	}
	if !strings.Contains(result, w.want) {
		t.Errorf("it does not end with %q", w.want)
	}
}

// egressPage is docs/egress.md on one line.
func egressPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/egress.md")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(page)), " ")
}

func replaced(o *outside, text string) string { return strings.NewReplacer(o.words...).Replace(text) }

func addressOf(t *testing.T, c *launchertest.Cluster, id string) netip.Addr {
	t.Helper()
	return netip.MustParseAddr(runningPodOf(t, c, id).Status.PodIP)
}

// samePort serves at a port of the node, and returns it. A fence that lets the port pass for a server
// of the sandbox's own lets connections to the node pass, too.
func (o *outside) samePort(t *testing.T, c *launchertest.Cluster) uint16 {
	t.Helper()
	address := o.accept(t, "tcp", net.JoinHostPort(networkOf(t, c).BridgeAddress, "0")).Addr().(*net.TCPAddr).AddrPort()
	o.name("sameport", address)
	return address.Port()
}

// namePods makes another pod, which has an echo, a relay and a proxy, and calls servers at these
// addresses.
func (o *outside) namePods(t *testing.T, c, elsewhere *launchertest.Cluster, addresses ...netip.Addr) {
	t.Helper()
	spec := elsewhere.Spec("partner")
	spec.Egress.Mode = wayout.Mode(wayout.Advisory)
	partner := harness.Launch(t, elsewhere.Launcher(), spec)
	harness.PutProgram(t, partner, "leave")
	startEcho(t, partner)
	node := replaced(o, "{node}")
	collect := []string{"collect", node}
	for _, address := range addresses {
		collect = append(collect, netip.AddrPortFrom(address, collectedPort).String())
	}
	startReady(t, partner, "relay", fmt.Sprint(relayPort), node)
	startReady(t, partner, collect...)
	pod := addressOf(t, elsewhere, "partner")
	for word, port := range map[string]uint16{
		"pod": otherPort, "podudp": otherPort, "relay": relayPort, "otherproxy": uint16(partner.Egress.Port),
	} {
		o.name(word, netip.AddrPortFrom(pod, port))
	}
	o.name("collected", collectedPort)
	o.name("dns", netip.AddrPortFrom(startDNS(t, c), 53))
	o.name("api", apiServer(t, c).address)
	o.name("service", apiService(t, c).address)
	o.name("metadata", listenAtMetadata(t, c).address)
}

// startReady starts a partner of tries in a pod, and waits until it is ready.
func startReady(t *testing.T, s *launcher.Sandbox, args ...string) {
	t.Helper()
	cmd := s.Command(context.WithoutCancel(t.Context()), "./leave", args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // which stays open
	}
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
}

// startPartner starts a partner of tries outside of the fence of a pod, which passes on sockets and
// connects to an address. It returns its path.
func startPartner(t *testing.T, c *launchertest.Cluster, s *launcher.Sandbox, to string) string {
	t.Helper()
	const path = "/tmp/partner"
	pod := runningPodOf(t, c, s.ID)
	cmd := exec.Command(kubectlProgram(t, c), "--kubeconfig", c.Kubeconfig, "--namespace", c.Namespace,
		"exec", "--stdin", pod.Name, "--", s.Workdir+"/leave", "pass", path, to)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return path
}
