package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestStartThatIsRetriedAfterARestartOfTheAgentIsLostAndRanOnce(t *testing.T) {
	overEachWayHarmed(t, testRetriedStart)
}

func testRetriedStart(t *testing.T, c *launchertest.Cluster) {
	w, l := harness.WireTo(t, c)
	deaf := deafen(t, l, w)
	s := harness.Launch(t, l, c.Spec("a"))
	harness.Run(t, s, "true", nil) // from this the launcher knows the agent
	direct, err := c.Launcher().Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close()
	boot, uid := harness.BootOf(t, direct), podUID(t, direct)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()

	deaf.Store(true) // the start arrives, but its answer is lost
	cmd := s.Shell(ctx, "echo ran >> ran; sleep 300")
	started := make(chan error, 1)
	go func() { started <- cmd.Start() }()
	harness.Await(t, "the run", func() bool {
		data, err := direct.ReadFile(ctx, "ran")
		return err == nil && string(data) == "ran\n"
	})
	w.SetAway(true)
	w.Reset()
	select {
	case <-w.Refused(): // the start is retried now
	case err := <-started:
		t.Fatalf("the start was not retried: %v", err)
	}
	c.KillAgent(t, uid)
	harness.Await(t, "another agent", func() bool {
		info, err := direct.Info(ctx)
		return err == nil && info.BootID != boot
	})
	deaf.Store(false)
	w.SetAway(false)
	if err := <-started; !errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("the start: %v", err)
	}
	if out, _, _ := harness.Run(t, s, "cat ran; echo next", nil); out != "ran\nnext\n" {
		t.Errorf("after it, the next command printed %q", out)
	}
	if list, err := s.Processes(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("the processes are %+v, %v, want only the next command", list, err)
	}
}

// deafen puts a proxy between a launcher and its wire, before its first connection.
// While deaf is set, the proxy drops the server's data. Connections from that time
// must be cut before deaf is cleared.
func deafen(t *testing.T, l *launcher.Kubernetes, w *harness.Wire) (deaf *atomic.Bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	if l.Dial == nil {
		l.Config.Host = "https://" + listener.Addr().String()
	} else {
		l.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			w.LeadTo(address)
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		}
	}
	server := w.Addr().String()
	deaf = new(atomic.Bool)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go carryToDeaf(client, server, deaf)
		}
	}()
	return deaf
}

// carryToDeaf carries one connection until either side ends it.
func carryToDeaf(client net.Conn, address string, deaf *atomic.Bool) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(&ear{client, deaf}, server)
	server.Close()
}

// ear is a client that hears nothing while deaf is set.
type ear struct {
	io.Writer
	deaf *atomic.Bool
}

func (e *ear) Write(p []byte) (int, error) {
	if e.deaf.Load() {
		return len(p), nil
	}
	return e.Writer.Write(p)
}
