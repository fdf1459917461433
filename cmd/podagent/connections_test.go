//go:build !race

package main

// The race detector has its own memory for every byte that the agent ever used. Package
// admission's tests find the same races.

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podagent/podagent/pkg/podapi"
)

const (
	sandboxUser   = 12345
	maxMemory     = 128 << 20
	agentPort     = ":7463"
	healthAddress = "unix:@podagent-health-test"
	// The addresses of three pods in the tests' network.
	agentPod, otherPod, hostPod = "10.77.0.1", "10.77.0.2", "10.77.0.3"
	// inNetwork is the variable that says that a test program is in that network.
	inNetwork = "PODAGENT_TEST_NETWORK"
)

// The floods come from the sandbox, where a port-forward comes as root, while commands do
// not; from a sandbox whose commands are root, too; and from another pod.
func TestFloodOfHalfOpenHandshakesLeavesRoomForCallers(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	for what, tt := range map[string]struct {
		user     uint32
		to, from string
	}{
		"from inside":                   {sandboxUser, "127.0.0.1", ""},
		"from inside, as the same user": {0, "127.0.0.1", ""},
		"from inside, by its address":   {sandboxUser, agentPod, ""},
		"from another pod":              {sandboxUser, agentPod, otherPod},
	} {
		t.Run(what, func(t *testing.T) {
			a := startAgent(t, tt.user)
			a.survives(t, a.flood(t, "half-open handshakes", 12_000, tt.user, "tcp", tt.to+agentPort, tt.from))
		})
	}
}

func TestFloodOfHealthStreamsLeavesRoomForCallersAndProbes(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	for kind, number := range map[string]int{"health streams": 40_000, "health connections": 10_000} {
		t.Run(kind, func(t *testing.T) {
			a := startAgent(t, sandboxUser)
			a.survives(t, a.flood(t, kind, number, sandboxUser, "unix", strings.TrimPrefix(healthAddress, "unix:"), ""))
		})
	}
}

func TestFloodOfIdleConnectionsWithTheKeyLeavesRoomForCallers(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	a := startAgent(t, sandboxUser)
	a.survives(t, a.flood(t, "idle connections", 5000, 0, "tcp", "127.0.0.1"+agentPort, ""))
}

// A handshake takes two round trips, and the flood has time for thousands of connections
// meanwhile.
func TestDistantCallerIsAnsweredDuringAFlood(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	for what, user := range map[string]uint32{"as another user": sandboxUser, "as the same user": 0} {
		t.Run(what, func(t *testing.T) {
			a := startAgent(t, user)
			far := delay(t, "127.0.0.1"+agentPort, 150*time.Millisecond)
			through := a.flood(t, "half-open handshakes", 12_000, user, "tcp", "127.0.0.1"+agentPort, "")
			a.answers(t, through, far, "")
		})
	}
}

// ownNetwork runs the test that calls it again, in a network namespace with addresses for
// three pods, and reports whether this is that run.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inNetwork) != "" {
		if err := bringUp(); err != nil {
			t.Fatal(err)
		}
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout="+(6*hung).String())
	cmd.Env = append(os.Environ(), inNetwork+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	return false
}

// bringUp gives the loopback device all addresses of the pods: those of 10.0.0.0/8.
func bringUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	flags.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, flags); err != nil {
		return err
	}
	address, err := unix.NewIfreq("lo:1")
	if err != nil {
		return err
	}
	if err := address.SetInet4Addr(net.ParseIP(agentPod).To4()); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, address)
}

// runningAgent is an agent as a pod has it.
type runningAgent struct {
	cmd      *exec.Cmd
	identity podapi.Identity
}

// startAgent starts an agent as a user, until the test ends.
func startAgent(t *testing.T, user uint32) *runningAgent {
	t.Helper()
	identity, err := podapi.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	a := &runningAgent{identity: identity}
	a.cmd = programAs(user, "podagent", "serve", "--listen", "tcp:0.0.0.0"+agentPort, "--health", healthAddress,
		"--workdir", "/", "--journal-dir=", "--idle-timeout", hung.String(), "--authorized-key", identity.AuthorizedKey().String())
	a.cmd.Stderr = os.Stderr
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = a.cmd.Process.Kill() // it may have ended
		_ = a.cmd.Wait()
	})
	a.exec(t, "127.0.0.1"+agentPort, "") // it serves
	return a
}

// programAs returns a command of this test program, as a user.
func programAs(user uint32, args ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = args
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}

// flood begins a flood that lasts until the test ends. It returns a channel that is closed
// when the flood has opened that many.
func (a *runningAgent) flood(t *testing.T, kind string, number int, user uint32, args ...string) <-chan struct{} {
	t.Helper()
	if args[len(args)-1] == "" {
		args = args[:len(args)-1]
	}
	pem, err := a.identity.MarshalPEM()
	if err != nil {
		t.Fatal(err)
	}
	cmd := programAs(user, append([]string{"flood", kind, fmt.Sprint(number)}, args...)...)
	cmd.Env = append(os.Environ(), "PODAGENT_TEST_IDENTITY="+string(pem))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	through, began := make(chan struct{}), time.Now()
	go func() {
		defer close(through)
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Errorf("the flood broke off: %v", err)
		}
		t.Logf("%s: after %v it has %s", kind, time.Since(began).Round(time.Millisecond), line)
	}()
	return through
}

// survives checks an agent during a flood: orchestrators and probes are answered, and the
// memory stays small.
func (a *runningAgent) survives(t *testing.T, through <-chan struct{}) {
	t.Helper()
	var all sync.WaitGroup
	all.Go(func() { a.answers(t, through, "127.0.0.1"+agentPort, "") })
	all.Go(func() { a.answers(t, through, agentPod+agentPort, hostPod) })
	all.Go(func() {
		repeat(t, "probe", through, func() {
			for deadline := time.Now().Add(hung); ; {
				probe := programAs(a.cmd.SysProcAttr.Credential.Uid, "podagent", "health", "--health", healthAddress)
				out, err := probe.CombinedOutput()
				if err == nil {
					return
				}
				if time.Now().After(deadline) {
					t.Errorf("the probe: %v: %s", err, out)
					return
				}
			}
		})
	})
	all.Wait()
	peak := peakMemory(t, a.cmd.Process.Pid)
	t.Logf("the agent used up to %d MiB", peak>>20)
	if peak > maxMemory {
		t.Errorf("the agent used up to %d MiB, want at most %d", peak>>20, maxMemory>>20)
	}
}

// answers has commands executed, each by another orchestrator, during the flood.
func (a *runningAgent) answers(t *testing.T, through <-chan struct{}, address, from string) {
	repeat(t, "exec at "+address, through, func() { a.exec(t, address, from) })
}

// moreTimes is how often something must succeed while a flood has all open that it wants,
// and opens the rest again.
const moreTimes = 3

// repeat does something until the flood is through, and some times more. It logs how long
// it took at most.
func repeat(t *testing.T, what string, through <-chan struct{}, do func()) {
	var slowest time.Duration
	for times, more := 1, 0; ; times++ {
		select {
		case <-through:
			more++
		default:
		}
		began := time.Now()
		do()
		slowest = max(slowest, time.Since(began))
		if more == moreTimes || t.Failed() {
			t.Logf("%s: %d times, the slowest took %v", what, times, slowest.Round(time.Millisecond))
			return
		}
	}
}

// exec has a command executed by an orchestrator. If that cannot connect, another one
// tries at once: where chance decides who gets in, a client that waits longer after each
// failure has few tries.
func (a *runningAgent) exec(t *testing.T, address, from string) {
	for deadline := time.Now().Add(hung); ; {
		err := a.tryExec(t, address, from)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("exec at %s from %q: %v", address, from, err)
			return
		}
		time.Sleep(time.Millisecond) // what fails at once would take the processor from the agent
	}
}

// tryExec is an orchestrator that has a command executed, if it can connect.
func (a *runningAgent) tryExec(t *testing.T, address, from string) error {
	d := net.Dialer{}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	client, err := podapi.Dial(podapi.DialOptions{Identity: &a.identity, Dial: func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", address)
	}})
	if err != nil {
		return err
	}
	defer client.Close()
	cmd := client.Command(t.Context(), "/bin/true")
	cmd.ResumeTimeout = -1
	return cmd.Run()
}

// delay returns an address from where bytes take this long to the agent, and as long
// back.
func delay(t *testing.T, address string, by time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", address)
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near, by)
			go carry(near, far, by)
		}
	}()
	return l.Addr().String()
}

// carry copies what it reads, and its end, each after a delay.
func carry(to, from net.Conn, by time.Duration) {
	type part struct {
		due  time.Time
		data []byte
	}
	parts := make(chan part, 1000)
	go func() {
		defer to.Close()
		for p := range parts {
			time.Sleep(time.Until(p.due))
			_, _ = to.Write(p.data) // if it fails, the reader finds out
		}
	}()
	defer close(parts)
	for {
		p := make([]byte, 32<<10)
		n, err := from.Read(p)
		parts <- part{time.Now().Add(by), p[:n]}
		if err != nil {
			return
		}
	}
}

// peakMemory returns the most bytes that a process ever had resident.
func peakMemory(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &bytes); err == nil {
			return bytes << 10
		}
	}
	t.Fatalf("no VmHWM in %s", status)
	return 0
}
