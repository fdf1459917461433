package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about the ends of connections to ports.

func TestEachDirectionOfAConnectionHasItsEnd(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		// The server answers after the end of the client's data.
		conn := harness.Dial(t, s, ports["sum"])
		if _, err := io.WriteString(conn, "request"); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		want, _ := harness.SHA(t, strings.NewReader("request"))
		if got, err := io.ReadAll(conn); string(got) != want+" 7 <nil>" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		// The server ends first, and reads on.
		conn = harness.Dial(t, s, ports["first"])
		if got, err := io.ReadAll(conn); string(got) != "bye" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := io.WriteString(conn, "still there"); err != nil {
			t.Error(err)
		}
		conn.Close()
		client := browser(t, s, ports["http"])
		harness.Await(t, "the server's end", func() bool { return fetch(t, client, "/last") == "still there, <nil>" })
	})
}

func TestRefusalAndResetOfAServerAreSaid(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		if _, err := s.Dial(t.Context(), 1); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a port where nothing listens: %v", err)
		}
		conn := harness.Dial(t, s, ports["reset"])
		if _, err := io.WriteString(conn, "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a server that resets: %v", err)
		}
	})
}

func TestConnectionToAPortDoesNotOutliveACut(t *testing.T) {
	test := func(t *testing.T, s *launcher.Sandbox, w *harness.Wire) {
		harness.TestPortAcrossCuts(t, s, map[string]func(){
			"a reset": func() { w.Reset() },
			"the end": func() { w.Finish() },
		})
	}
	overEachWire(t, test)
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		l := launchertest.Local(t)
		harness.Launch(t, l, launcher.Spec{ID: "a"})
		w := wireToAgent(t, l)
		s, err := l.Open(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s, w)
	})
}

// wireToAgent puts a proxy in front of the socket of a local launcher's only
// sandbox. From then on there is no other way to open the sandbox.
func wireToAgent(t *testing.T, l *launcher.Local) *harness.Wire {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(l.StateDir, "*", "agent.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("the sockets of one sandbox: %q, %v", sockets, err)
	}
	dir, err := os.Open(filepath.Dir(sockets[0]))
	if err == nil {
		err = os.Rename(sockets[0], filepath.Join(dir.Name(), "agent"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	// The path leads through the directory's descriptor, because socket addresses
	// must be short.
	short := fmt.Sprintf("/proc/self/fd/%d/", dir.Fd())
	listener, err := net.Listen("unix", short+"agent.sock")
	if err != nil {
		t.Fatal(err)
	}
	return harness.NewWire(t, listener, "unix", short+"agent")
}

func TestConnectionToAPortDoesNotOutliveTheContainer(t *testing.T) {
	overEachWayHarmed(t, func(t *testing.T, c *launchertest.Cluster) {
		s := harness.Launch(t, c.Launcher(), c.Spec("a"))
		conn := harness.Dial(t, s, harness.StartServer(t, s)["echo"])
		c.KillAgent(t, podUID(t, s))
		if _, err := io.Copy(io.Discard, conn); !harness.IsCut(err) {
			t.Errorf("the read ended with %v", err)
		}
		harness.Await(t, "the agent", func() bool {
			_, err := s.Info(t.Context())
			return err == nil
		})
		ports := harness.StartServer(t, s)
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
	harness.Await(t, "the end of the sandbox whose connection is silent", func() bool { return hasEnded(t, c, "silent") })
	close(over)
	if err := <-pinged; err != nil {
		t.Errorf("the sandbox whose connection carries bytes: %v", err)
	}
	if hasEnded(t, c, "busy") {
		t.Error("the sandbox whose connection carries bytes has ended, too")
	}
	if _, err := io.Copy(io.Discard, silent); !harness.IsCut(err) {
		t.Errorf("the silent connection ended with %v", err)
	}
}

// dialIdle returns a connection to an echo in a sandbox that ends when it is idle.
// A running command would prevent that, so the server is a child that a command has
// left behind.
func dialIdle(t *testing.T, c *launchertest.Cluster, id string) harness.Conn {
	t.Helper()
	harness.BuildProgram(t, "test/e2e/testdata/server") // before the sandbox can be idle
	spec := c.Spec(id)
	spec.Pod.IdleTimeout = 30 * time.Second
	s := harness.Launch(t, c.Launcher(), spec)
	harness.PutProgram(t, s, "server")
	harness.Run(t, s, "./server >ports 2>&1 & until grep -q ready ports; do sleep 0.1; done", nil)
	return harness.Dial(t, s, harness.PortsOf(t, strings.NewReader(harness.Get(t, s, "ports")))["echo"])
}

// pingPeriod is the time between bytes that keep a sandbox alive.
const pingPeriod = 200 * time.Millisecond

// pingUntil sends bytes to an echo and back until over is closed. Its error
// includes the longest time between two bytes.
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
