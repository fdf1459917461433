package agent

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/podapi"
)

// serverEnv has the addresses at which this program listens instead of running tests, the last one as often as serverTimes says.
const (
	serverEnv   = "PODAGENT_TEST_LISTEN"
	serverTimes = "PODAGENT_TEST_LISTEN_TIMES"
)

// actAsServer listens, if this program is to be a server, until its standard input ends. It writes the ports.
func actAsServer(t *testing.T) bool {
	t.Helper()
	addresses := strings.Fields(os.Getenv(serverEnv))
	if len(addresses) == 0 {
		return false
	}
	times, _ := strconv.Atoi(os.Getenv(serverTimes))
	for range times - 1 {
		addresses = append(addresses, addresses[len(addresses)-1])
	}
	if err := os.WriteFile("/proc/self/comm", []byte("\x1b[2Ja\xff<b>"), 0); err != nil {
		t.Fatal(err)
	}
	var ports []string
	for _, address := range addresses {
		network := "tcp"
		if strings.HasPrefix(address, "0.0.0.0:") { // which tcp takes for both
			network = "tcp4"
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	fmt.Println("at", strings.Join(ports, " "))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return true
}

// portsOf reads the ports that a server writes.
func portsOf(t *testing.T, out io.Reader) (ports []int) {
	t.Helper()
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		rest, ok := strings.CutPrefix(line, "at ")
		if !ok {
			continue
		}
		for _, field := range strings.Fields(rest) {
			port, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			ports = append(ports, port)
		}
		return ports
	}
}

// serverIn starts a server by the agent, until the test ends.
func serverIn(t *testing.T, client *podapi.Client, env ...string) (cmd *podapi.Cmd, ports []int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = client.Command(t.Context(), self, "-test.run=^"+t.Name()+"$")
	cmd.Env = env
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close() })
	return cmd, portsOf(t, out)
}

// serverBeside starts a server that is not the agent's, until the test ends.
func serverBeside(t *testing.T) (port int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), serverEnv+"=127.0.0.1:0")
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil {
		t.Fatal(inErr, outErr)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	return portsOf(t, out)[0]
}

func TestPortsAreThoseOfTheSandboxAlone(t *testing.T) {
	if actAsServer(t) {
		return
	}
	own, err := net.Listen("tcp", "127.0.0.1:0") // the agent's, which is this program
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	beside := serverBeside(t)
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	cmd, ports := serverIn(t, client, serverEnv+"=127.0.0.1:0 [::1]:0 0.0.0.0:0 [::]:0 127.0.0.9:0")
	list, more, err := client.Ports(t.Context())
	if err != nil || more {
		t.Fatalf("%+v, and more: %v; %v", list, more, err)
	}
	at := map[int][]netip.Addr{}
	for _, p := range list {
		at[p.Port] = p.Addresses
		if p.ExecID != cmd.Process.ID() || p.PID != cmd.Process.PID() || p.Name != "\x1b[2Ja\xff<b>" {
			t.Errorf("%+v, of the command %s (process %d)", p, cmd.Process.ID(), cmd.Process.PID())
		}
		conn, err := client.Dial(t.Context(), p.Port)
		if err != nil {
			t.Errorf("port %d: %v", p.Port, err)
			continue
		}
		conn.Close()
	}
	for i, want := range []string{"127.0.0.1", "::1", "0.0.0.0", "::"} {
		if got := at[ports[i]]; len(got) != 1 || got[0].String() != want {
			t.Errorf("port %d is at %v, want %s", ports[i], got, want)
		}
	}
	for what, port := range map[string]int{"the agent's own": own.Addr().(*net.TCPAddr).Port, "another program's": beside, "an address that no call reaches": ports[4]} {
		if _, listed := at[port]; listed {
			t.Errorf("it lists the port of %s", what)
		}
	}
	if len(at) != 4 {
		t.Errorf("it lists %+v", list)
	}
}

func TestAPortIsListedOnceWithItsAddresses(t *testing.T) {
	if actAsServer(t) {
		return
	}
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	port := portFreeAtBoth(t)
	serverIn(t, client, fmt.Sprintf("%s=[::1]:%d", serverEnv, port))
	serverIn(t, client, fmt.Sprintf("%s=127.0.0.1:%d", serverEnv, port))
	list, _, err := client.Ports(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v: %v", list, err)
	}
	want := []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	if !slices.Equal(list[0].Addresses, want) {
		t.Errorf("it is at %v", list[0].Addresses)
	}
}

// portFreeAtBoth returns a port that is free at the loopback addresses of IPv4 and IPv6.
func portFreeAtBoth(t *testing.T) int {
	t.Helper()
	var last error
	for range 100 {
		six, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Fatal(err)
		}
		port := six.Addr().(*net.TCPAddr).Port
		four, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		six.Close()
		if err == nil {
			four.Close()
			return port
		}
		last = err
	}
	t.Fatal(last)
	return 0
}

func TestAListOfManyPortsIsCut(t *testing.T) {
	if actAsServer(t) {
		return
	}
	_, socket := serveTest(t, nil)
	client := dial(t, podapi.DialOptions{Dial: unixDialer(socket)})
	_, ports := serverIn(t, client, serverEnv+"=127.0.0.1:0", serverTimes+"=1200")
	list, more, err := client.Ports(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(ports)
	got := make([]int, len(list))
	for i, p := range list {
		got[i] = p.Port
	}
	if !more || !slices.Equal(got, ports[:1000]) {
		t.Errorf("more: %v; %d ports, which begin with %v, want %v", more, len(got), got[:min(5, len(got))], ports[:5])
	}
}
