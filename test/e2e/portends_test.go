package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
)

// The tests of this file are about how connections to ports end.

func TestEachDirectionOfAConnectionHasItsEnd(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		// The server answers after the client's end.
		conn := dial(t, s, ports["sum"])
		if _, err := io.WriteString(conn, "request"); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		want, _ := sha(t, strings.NewReader("request"))
		if got, err := io.ReadAll(conn); string(got) != want+" 7 <nil>" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		// The server ends first, and reads on.
		conn = dial(t, s, ports["first"])
		if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := io.WriteString(conn, "still there"); err != nil {
			t.Error(err)
		}
		conn.Close()
		client := browser(t, s, ports["http"])
		await(t, "the server's end", func() bool { return fetch(t, client, "/last") == "still there, <nil>" })
	})
}

func TestRefusalAndResetOfAServerAreSaid(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		if _, err := s.Dial(t.Context(), 1); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a port where nothing listens: %v", err)
		}
		conn := dial(t, s, ports["reset"])
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a server that resets: %v", err)
		}
	})
}

func TestConnectionToAPortDoesNotOutliveACut(t *testing.T) {
	overEachWire(t, func(t *testing.T, s *launcher.Sandbox, w *wire, harm func()) {
		ports := startServer(t, s)
		for what, cut := range map[string]func(){
			"a reset":  func() { w.reset() },
			"the end":  func() { w.finish() },
			"the harm": harm,
		} {
			conn := dial(t, s, ports["echo"])
			cut()
			if _, err := io.Copy(io.Discard, conn); !isCut(err) || !strings.Contains(err.Error(), "was cut, and cannot go on") {
				t.Errorf("after %s of the way the read ended with %v", what, err)
			}
			await(t, "a connection after "+what, func() bool {
				next, err := s.Dial(t.Context(), ports["echo"])
				if err == nil {
					next.Close()
				}
				return err == nil
			})
		}
	})
}

func TestConnectionToAPortDoesNotOutliveTheContainer(t *testing.T) {
	overEachWayAlone(t, func(t *testing.T, c *launchertest.Cluster) {
		s := launch(t, c.Launcher(), c.Spec("a"))
		conn := dial(t, s, startServer(t, s)["echo"])
		c.KillAgent(t, podUID(t, s))
		if _, err := io.Copy(io.Discard, conn); !isCut(err) {
			t.Errorf("the read ended with %v", err)
		}
		await(t, "the agent", func() bool {
			_, err := s.Info(t.Context())
			return err == nil
		})
		ports := startServer(t, s)
		if got := fetch(t, browser(t, s, ports["http"]), "/"); got != "hello\n" {
			t.Errorf("after the restart got %q", got)
		}
	})
}

func TestBytesOfAConnectionKeepASandboxAndAnOpenOneDoesNot(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted)
	silent, busy := dialIdle(t, c, "silent"), dialIdle(t, c, "busy")
	over, pinged := make(chan struct{}), make(chan error, 1)
	go func() { pinged <- pingUntil(busy, over) }()
	await(t, "the end of the sandbox whose connection is silent", func() bool { return hasEnded(t, c, "silent") })
	close(over)
	if err := <-pinged; err != nil {
		t.Errorf("the sandbox whose connection carries bytes: %v", err)
	}
	if hasEnded(t, c, "busy") {
		t.Error("the sandbox whose connection carries bytes has ended, too")
	}
	if _, err := io.Copy(io.Discard, silent); !isCut(err) {
		t.Errorf("the silent connection ended with %v", err)
	}
}

// dialIdle returns a connection to an echo in a sandbox which ends when it is
// idle. A command that runs would keep it from that; so the server is a child that
// one has left behind.
func dialIdle(t *testing.T, c *launchertest.Cluster, id string) *podapi.PortConn {
	t.Helper()
	spec := c.Spec(id)
	spec.Pod.IdleTimeout = 15 * time.Second
	s := launch(t, c.Launcher(), spec)
	putProgram(t, s, "server")
	run(t, s, "./server >ports 2>&1 & until grep -q ready ports; do sleep 0.1; done", nil)
	return dial(t, s, portsOf(t, strings.NewReader(get(t, s, "ports")))["echo"])
}

// pingPeriod is how often bytes pass that keep a sandbox.
const pingPeriod = 200 * time.Millisecond

// pingUntil has a byte pass to an echo and back again and again. Its error
// says how long it once was from one to the next.
func pingUntil(conn net.Conn, over <-chan struct{}) error {
	var longest time.Duration
	for last := time.Now(); ; last = time.Now() {
		_, err := io.WriteString(conn, "x")
		if err == nil {
			_, err = io.ReadFull(conn, make([]byte, 1))
		}
		longest = max(longest, time.Since(last)+pingPeriod)
		if err != nil {
			return fmt.Errorf("%w, with bytes every %v or sooner", err, longest)
		}
		select {
		case <-over:
			return nil
		case <-time.After(pingPeriod):
		}
	}
}
