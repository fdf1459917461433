package e2e

// Servers that a pod tries to reach, which may not leave.

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
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

// note notes the name of a try in what came, which may be a request of HTTP.
func (o *outside) note(data []byte) {
	name, _, _ := strings.Cut(string(data), "\x00")
	if _, header, found := strings.Cut(name, tryHeader+": "); found {
		name, _, _ = strings.Cut(header, "\r")
	}
	o.arrives(name)
}

func (o *outside) arrives(name string) {
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
	abstract := fmt.Sprint("podagent-test-", port)
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
				data := make([]byte, 1<<10)
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

// leaveBy tries all ways from a pod, and returns what came of each. There are more words.
func (o *outside) leaveBy(t *testing.T, s *launcher.Sandbox, words ...string) map[string]string {
	t.Helper()
	all := allEgressWays()
	in := o.triesOf(all, words...)
	out, errOut, _ := harness.Run(t, s, "exec ./leave", func(cmd *podapi.Cmd) { cmd.Stdin = strings.NewReader(in) })
	results := resultsIn(out)
	if len(results) != len(all) {
		t.Fatalf("%d of %d tries were made: %s", len(results), len(all), errOut)
	}
	return results
}

// leaveAsRoot tries from the node the ways that root has.
func (o *outside) leaveAsRoot(t *testing.T) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), harness.ProgramFile(t, "test/e2e/testdata/leave"))
	cmd.Stdin = strings.NewReader(o.triesOf(slices.DeleteFunc(allEgressWays(), func(w egressWay) bool { return !w.root })))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return resultsIn(string(out))
}

// triesOf is the input of the program that makes tries.
func (o *outside) triesOf(ways []egressWay, words ...string) string {
	var in strings.Builder
	replacer := strings.NewReplacer(slices.Concat(o.words, words)...) // it leaves what the program replaces
	for _, w := range ways {
		fmt.Fprintf(&in, "%s\t%s\n", w.name, replacer.Replace(w.try))
	}
	return in.String()
}

// resultsIn is what came of each try.
func resultsIn(output string) map[string]string {
	results := map[string]string{}
	for line := range strings.Lines(output) {
		name, result, _ := strings.Cut(strings.TrimSpace(line), "\t")
		results[name] = result
	}
	return results
}

// left reports whether a try led out, as far as can be seen from inside.
func left(result string) bool {
	return slices.Contains([]string{"connected", "answered", "opened"}, result)
}
