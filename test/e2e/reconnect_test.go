package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file are about the time after a lost connection.

func TestCallWaitsForAServerThatIsAway(t *testing.T) {
	overEachWay(t, testCallWaitsForAServerThatIsAway)
}

func testCallWaitsForAServerThatIsAway(t *testing.T, c *launchertest.Cluster) {
	w, l := harness.WireTo(t, c)
	s := harness.Launch(t, l, c.Spec(t.Name()))
	harness.Put(t, s, "file", "content")
	cmd := s.Shell(t.Context(), "until [ -e go ]; do sleep 0.05; done; exit 7")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.SetAway(true)
	w.Reset()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Hung)
	defer cancel()
	for range 3 { // by then the client knows of the cut, which ends all calls under way
		select {
		case <-w.Refused():
		case <-ctx.Done():
			t.Fatal("the client does not reconnect")
		}
	}
	type result struct {
		data []byte
		err  error
	}
	results := make(chan result, 1)
	go func() {
		data, err := s.ReadFile(ctx, "file")
		results <- result{data, err}
	}()
	for range 5 { // tries to connect, after longer and longer waits
		select {
		case <-w.Refused():
		case r := <-results:
			t.Fatalf("the call did not wait: %q, %v", r.data, r.err)
		}
	}
	w.SetAway(false)
	if r := <-results; string(r.data) != "content" || r.err != nil {
		t.Errorf("got %q, %v", r.data, r.err)
	}
	harness.Put(t, s, "go", "")
	if err := cmd.Wait(); cmd.Process.Status() == nil || cmd.Process.Status().Code != 7 {
		t.Errorf("the command that was under way: %v", err)
	}
}

func TestProcessRunsOnAcrossACut(t *testing.T) { overEachWay(t, testProcessRunsOnAcrossACut) }

func testProcessRunsOnAcrossACut(t *testing.T, c *launchertest.Cluster) {
	w, l := harness.WireTo(t, c)
	s := harness.Launch(t, l, c.Spec(t.Name()))
	cmd := s.Shell(t.Context(), `trap 'echo signalled > said; exit 7' USR1; echo ready; while :; do sleep 0.05; done`)
	cmd.ResumeTimeout = -1
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line := make([]byte, 6); first(io.ReadFull(stdout, line)) != 6 || string(line) != "ready\n" {
		t.Fatalf("it said %q", line)
	}
	w.Reset()
	if _, err := io.ReadAll(stdout); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); !harness.IsCut(err) || cmd.Process.Status() != nil {
		t.Errorf("Wait: %v, status %v", err, cmd.Process.Status())
	}
	p := process(t, s, cmd.ID)
	if p.Status != nil || p.PID != cmd.Process.PID() {
		t.Errorf("the process did not continue: %+v", p)
	}
	if err := s.Signal(t.Context(), cmd.ID, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	harness.Await(t, "the end of the process", func() bool {
		p = process(t, s, cmd.ID)
		return p.Status != nil
	})
	if p.Status.Code != 7 || harness.Get(t, s, "said") != "signalled\n" {
		t.Errorf("the process ended with %+v", p.Status)
	}
}

// process returns the agent's information about the process with this id.
func process(t *testing.T, s *launcher.Sandbox, id string) podapi.ProcessInfo {
	t.Helper()
	list, err := s.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(p podapi.ProcessInfo) bool { return p.ID == id })
	if i < 0 {
		t.Fatalf("the agent does not list process %s: %+v", id, list)
	}
	return list[i]
}

func TestFiftyCallsAcrossACutShareOneNewConnection(t *testing.T) {
	overEachWay(t, testFiftyCallsAcrossACutShareOneNewConnection)
}

func testFiftyCallsAcrossACutShareOneNewConnection(t *testing.T, c *launchertest.Cluster) {
	w, l := harness.WireTo(t, c)
	spec := c.Spec(t.Name())
	spec.Take.Heartbeat = launcher.HeartbeatOff // it has its own connection
	s := harness.Launch(t, l, spec)
	harness.Run(t, s, "mkfifo /tmp/end", nil)
	var waits [50]func() error
	for i := range waits {
		cmd := s.Shell(t.Context(), ": </tmp/end") // it waits for a writer, and costs nothing
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		waits[i] = cmd.Wait
	}
	before := w.Connections()
	w.Reset()
	harness.Await(t, "a connection by which the commands go on", func() bool { return w.Connections() > before })
	var calls [50]func() error
	for i := range calls {
		calls[i] = func() error {
			err := s.WriteFile(t.Context(), fmt.Sprint(i), []byte("content"), 0o666)
			return err
		}
	}
	for _, err := range atOnce(calls[:]) {
		if err != nil {
			t.Errorf("a call after the cut: %v", err)
		}
	}
	if got := harness.Names(t, s, "."); len(got) != len(calls) {
		t.Errorf("%d files were written: %q", len(got), got)
	}
	harness.Run(t, s, "exec 3<>/tmp/end; : >/tmp/file; mv /tmp/file /tmp/end", nil) // a late one reads the file
	for _, err := range atOnce(waits[:]) {
		if err != nil {
			t.Errorf("a command that was under way: %v", err)
		}
	}
	if n := w.Connections() - before; n != 1 {
		t.Errorf("%d connections were made after the cut", n)
	}
}

// atOnce runs functions in parallel and returns their errors.
func atOnce(do []func() error) []error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i := range do {
		all.Go(func() { errs[i] = do[i]() })
	}
	all.Wait()
	return errs
}

func TestEnvironmentOfAnAdoptionOutlivesTheContainer(t *testing.T) {
	overEachWayHarmed(t, testEnvironmentOfAnAdoption)
}

func testEnvironmentOfAnAdoption(t *testing.T, c *launchertest.Cluster) {
	spec := c.Spec(t.Name())
	spec.Env = []string{"GIVEN=first", "ONLY=first"}
	harness.Launch(t, c.Launcher(), spec)
	spec.Env = []string{"GIVEN=second"}
	s := harness.Launch(t, c.Launcher(), spec)
	if s.Created {
		t.Fatal("the sandbox was not adopted")
	}
	script := "echo $GIVEN $ONLY"
	if out, _, _ := harness.Run(t, s, script, nil); out != "second\n" {
		t.Errorf("before the restart: %q", out)
	}
	boot := harness.BootOf(t, s)
	cmd := s.Command(t.Context(), "sleep", "300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.KillAgent(t, podUID(t, s))
	if err := cmd.Wait(); !errors.Is(err, podapi.ErrAgentLost) {
		t.Errorf("the call under way ended with %v", err)
	}
	if out, _, _ := harness.Run(t, s, script, nil); out != "second\n" {
		t.Errorf("after the restart: %q", out)
	}
	if harness.BootOf(t, s) == boot {
		t.Error("the agent did not restart")
	}
}

// A connection without calls is closed after a minute, and made again by the next call. One with a
// command stays.
func TestConnectionWithoutCallsIsClosed(t *testing.T) {
	t.Parallel()
	c := launchertest.NewCluster(t, launcher.Restricted).By(t, launcher.ByAddress)
	open := func(id string) (*launcher.Sandbox, *connections) {
		k, made := c.Launcher(), &connections{}
		k.Dial = made.dial
		return harness.Launch(t, k, c.Spec(id)), made
	}
	idle, idleConns := open("idle")
	busy, busyConns := open("busy")
	harness.Run(t, idle, "mkfifo /tmp/end; echo before >file", nil)
	harness.Run(t, busy, "mkfifo /tmp/end", nil)
	cmd := busy.Shell(t.Context(), "read line </tmp/end; echo $line")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	made, kept := idleConns.made.Load(), busyConns.made.Load()
	ended := func() bool { return idleConns.open.Load() == 0 }
	harness.Await(t, "the end of the connection without calls", ended)
	var calls [10]func() error
	for i := range calls {
		calls[i] = func() error {
			got, err := idle.ReadFile(t.Context(), "file")
			if err == nil && string(got) != "before\n" {
				err = fmt.Errorf("got %q", got)
			}
			return err
		}
	}
	if err := errors.Join(atOnce(calls[:])...); err != nil {
		t.Error(err)
	}
	if n := idleConns.made.Load() - made; n != 1 {
		t.Errorf("%d connections were made for the calls afterwards", n)
	}
	harness.Await(t, "the end of the next connection", ended)
	if made, open := busyConns.made.Load(), busyConns.open.Load(); made != kept || open != 1 {
		t.Errorf("beside a command, %d connections were made, and %d are open", made-kept, open)
	}
	harness.Run(t, busy, "echo done >/tmp/end", nil)
	if err := cmd.Wait(); err != nil || out.String() != "done\n" {
		t.Errorf("the command said %q: %v", &out, err)
	}
}

// connections counts those that it makes.
type connections struct{ made, open atomic.Int64 }

func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.made.Add(1)
	c.open.Add(1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { c.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}
