package e2e

// The network of a pod whose commands leave by its agent, under the policy of deploy/.

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/podapi/wayout"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// outside are servers outside of a pod, which note the names that get there.
type outside struct {
	words []string // in braces, each with what it stands for

	mu      sync.Mutex
	arrived map[string]bool
}

func (o *outside) name(word string, value any) {
	o.words = append(o.words, "{"+word+"}", fmt.Sprint(value))
}

func (o *outside) note(data []byte) {
	name, _, _ := strings.Cut(string(data), "\x00")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.arrived[name] = true
}

// take returns what has arrived since it was last called.
func (o *outside) take() map[string]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	arrived := o.arrived
	o.arrived = map[string]bool{}
	return arrived
}

// newOutside serves at all addresses of the node, and of a pod elsewhere.
func newOutside(t *testing.T, c *launchertest.Cluster) *outside {
	t.Helper()
	o := &outside{arrived: map[string]bool{}}
	tcp := o.accept(t, "tcp", ":0")
	port := tcp.Addr().(*net.TCPAddr).Port
	packets, err := net.ListenPacket("udp", ":"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	go o.answer(packets)
	path := filepath.Join(t.TempDir(), "socket")
	o.accept(t, "unix", path)
	abstract := fmt.Sprint("podagent-test-", os.Getpid())
	o.accept(t, "unix", "@"+abstract)
	o.name("path", path)
	o.name("abstract", abstract)
	o.name("tcpport", port)
	o.name("udpport", port)

	n := networkOf(t, c)
	node, host := netip.MustParseAddr(n.BridgeAddress), hostAddress(t)
	o.name("node", netip.AddrPortFrom(node, uint16(port)))
	o.name("udp", netip.AddrPortFrom(node, uint16(port)))
	o.name("host", netip.AddrPortFrom(host, uint16(port)))
	o.name("hostudp", netip.AddrPortFrom(host, uint16(port)))
	o.name("mapped", fmt.Sprintf("[::ffff:%s]:%d", node, port))
	o.name("mappedudp", fmt.Sprintf("[::ffff:%s]:%d", node, port))
	o.name("host6", fmt.Sprintf("[2001:db8::1]:%d", port)) // pods of the test cluster have no IPv6
	o.name("host6udp", fmt.Sprintf("[2001:db8::1]:%d", port))
	o.name("broadcast", netip.AddrPortFrom(lastOf(netip.MustParsePrefix(n.Subnet)), uint16(port)))
	o.name("kubelet", netip.AddrPortFrom(node, uint16(n.Ports["kubelet"])))
	return o
}

// accept notes what comes by connections.
func (o *outside) accept(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				data := make([]byte, 64)
				n, _ := conn.Read(data)
				o.note(data[:n])
				_, _ = conn.Write([]byte("x"))
			}()
		}
	}()
	return l
}

func (o *outside) answer(packets net.PacketConn) {
	for data := make([]byte, 16<<10); ; {
		n, from, err := packets.ReadFrom(data)
		if err != nil {
			return
		}
		o.note(data[:n])
		_, _ = packets.WriteTo([]byte("x"), from)
	}
}

// hostAddress is the node's own address outside of the cluster.
func hostAddress(t *testing.T) netip.Addr {
	t.Helper()
	conn, err := net.Dial("udp4", "198.51.100.1:9") // sends nothing
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
}

// lastOf returns the address to which all of a network listen.
func lastOf(prefix netip.Prefix) netip.Addr {
	a := prefix.Masked().Addr().As4()
	for i := prefix.Bits(); i < 32; i++ {
		a[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom4(a)
}

// leaveBy tries all ways from a pod, and returns what came of each.
func (o *outside) leaveBy(t *testing.T, s *launcher.Sandbox) map[string]string {
	t.Helper()
	harness.PutProgram(t, s, "leave")
	var in strings.Builder
	replacer := strings.NewReplacer(o.words...) // it leaves what the program replaces
	for _, w := range egressWays {
		fmt.Fprintf(&in, "%s\t%s\n", w.name, replacer.Replace(w.try))
	}
	out, errOut, _ := harness.Run(t, s, "exec ./leave", func(cmd *podapi.Cmd) { cmd.Stdin = strings.NewReader(in.String()) })
	results := map[string]string{}
	for line := range strings.Lines(out) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), "\t")
		results[name] = result
	}
	if len(results) != len(egressWays) {
		t.Fatalf("%d of %d tries were made: %s", len(results), len(egressWays), errOut)
	}
	return results
}

// left reports whether a try led out, as far as can be seen from inside.
func left(result string) bool {
	return slices.Contains([]string{"connected", "answered", "opened"}, result)
}

// applyEgress applies all policies of deploy/ that say what pods may connect to.
func applyEgress(t *testing.T, c *launchertest.Cluster) {
	t.Helper()
	for _, file := range []string{"networkpolicy.yaml", "networkpolicy-egress.yaml", "networkpolicy-no-egress.yaml"} {
		apply(t, c, file)
	}
}

// closed is a Spec of a sandbox whose network leads nowhere.
func closed(c *launchertest.Cluster, id string) launcher.Spec {
	spec := c.Spec(id)
	spec.Egress = wayout.Config{Mode: wayout.Mode(wayout.Network), Require: wayout.Network}
	return spec
}

func TestNothingLeavesAPodWhoseNetworkLeadsNowhere(t *testing.T) {
	t.Parallel()
	c := launchertest.OwnCluster(t, launcher.Restricted)
	elsewhere := launchertest.NewCluster(t, launcher.Restricted)
	open := harness.Launch(t, elsewhere.Launcher(), elsewhere.Spec("open"))
	partner := harness.Launch(t, elsewhere.Launcher(), elsewhere.Spec("partner"))
	startEcho(t, partner)
	o := newOutside(t, c)
	pod := netip.MustParseAddr(runningPodOf(t, elsewhere, "partner").Status.PodIP)
	for word, port := range map[string]uint16{"pod": otherPort, "podudp": otherPort} {
		o.name(word, netip.AddrPortFrom(pod, port))
	}
	o.name("dns", netip.AddrPortFrom(startDNS(t, c), 53))
	o.name("api", apiServer(t, c).address)
	o.name("service", apiService(t, c).address)
	o.name("metadata", listenAtMetadata(t, c).address)

	applyEgress(t, c)
	s := harness.Launch(t, c.Launcher(), closed(c, "closed"))
	if s.Egress.Level != wayout.Network {
		t.Fatalf("its level is %+v", s.Egress)
	}
	without, arrivedWithout := o.leaveBy(t, open), o.take()
	within, arrivedWithin := o.leaveBy(t, s), o.take()
	for _, w := range egressWays {
		t.Run(w.name, func(t *testing.T) {
			t.Logf("without a policy: %s, arrived: %v; within: %s", without[w.name], arrivedWithout[w.name], within[w.name])
			if !w.rare && !left(without[w.name]) && !arrivedWithout[w.name] {
				t.Errorf("without a policy it ends with %s", without[w.name])
			}
			if left(within[w.name]) || arrivedWithin[w.name] {
				t.Errorf("it leads out: %s, arrived: %v", within[w.name], arrivedWithin[w.name])
			}
		})
	}
}

// The agent is reached all the same, by each connection and both ways through it.
func TestPodWhoseNetworkLeadsNowhereServes(t *testing.T) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		applyEgress(t, c)
		spec := closed(c, "closed")
		spec.Pod.Main = []string{"sh", "-c", "echo ran > main; exec sleep infinity"}
		s := harness.Launch(t, c.Launcher(), spec)
		harness.Await(t, "the command beside the agent", func() bool {
			data, err := s.ReadFile(t.Context(), "main")
			return err == nil && string(data) == "ran\n"
		})
		client := browser(t, s, harness.StartServer(t, s)["http"])
		answer, err := client.Get("http://sandbox/")
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("a server in it: %v, %v", answer, err)
		}
		d, err := c.Launcher().Describe(t.Context(), "closed")
		if err != nil || d.Agent == nil || d.Agent.Egress.Level != wayout.Network || d.Agent.Egress.Port == 0 {
			t.Errorf("it is described as %+v, %v", d.Agent, err)
		}
	})
}

// Without the policy nothing is made, and no command has run.
func TestPodThatLetsCommandsOutIsNotMade(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	spec := closed(c, "closed")
	_, err := c.Launcher().Launch(t.Context(), spec)
	if e, ok := errors.AsType[*launcher.PodError](err); !ok || !errors.Is(e.Class, launcher.ErrEgress) || !strings.Contains(err.Error(), "the network leads out of the sandbox: ") {
		t.Errorf("launching it: %v", err)
	}
	if n := harness.SandboxPods(t, c, "closed"); n != 0 {
		t.Errorf("%d pods are left", n)
	}
}

// A sandbox that is there stays as it is, which is said, and is an error if that is less than required.
func TestPodThatLetsMoreOutIsNotTaken(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	l := c.Launcher()
	harness.Launch(t, l, c.Spec("a"))
	asked := c.Spec("a")
	asked.Egress.Mode = wayout.Auto
	s := harness.Launch(t, l, asked)
	if want := `egress is unset, not "auto"`; !slices.Equal(s.Drift, []string{want}) {
		t.Errorf("drift %q, want %q", s.Drift, want)
	}
	asked.Egress.Require = wayout.Network
	if _, err := l.Launch(t.Context(), asked); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("launching it: %v", err)
	}
	opened, err := l.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	if err := opened.RequireEgress(t.Context(), wayout.Landlock); !errors.Is(err, launcher.ErrEgress) {
		t.Errorf("requiring it: %v", err)
	}
}

// A pod out of a pool is as closed as others, and so is one that is made again for its files.
func TestWarmAndResumedPodsAreClosed(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	applyEgress(t, c)
	egress := closed(c, "").Egress
	k, specOf := harness.KeptPoolOf(t, c, 1, 3, func(pods *launcher.Spec) { pods.Egress = egress })
	if s := harness.Launch(t, k, specOf("open")); s.Start.Warm || !strings.Contains(s.Start.Cold, "egress is") {
		t.Errorf("a sandbox without: %+v", s.Start)
	}
	spec := specOf("closed")
	spec.Egress = egress
	s := launchWarm(t, k, spec)
	if s.Egress.Level != wayout.Network {
		t.Errorf("out of the pool, it is %+v", s.Egress)
	}
	pause(t, k, s)
	resumed, err := k.Resume(t.Context(), "closed")
	if err != nil {
		t.Fatal(err)
	}
	defer resumed.Close()
	if resumed.Egress.Level != wayout.Network {
		t.Errorf("resumed, it is %+v", resumed.Egress)
	}
}

func TestDoctorTriesWhetherThePolicyIsEnforced(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	verdict := func() (f launcher.Finding) {
		for f := range c.Launcher().Check(t.Context(), c.Spec("")) {
			if f.Name == "way out of the sandbox" {
				return f
			}
		}
		return f
	}
	if f := verdict(); f.Verdict != launcher.NotChecked || !strings.Contains(f.Detail, "deploy/networkpolicy-egress.yaml") {
		t.Errorf("without a policy: %+v", f)
	}
	applyEgress(t, c)
	harness.Await(t, "the verdict of a policy that is enforced", func() bool { return verdict().Verdict == launcher.Passed })
}
