package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// The tests of this file reach testdata/server, which listens only on the sandbox's
// loopback.

// overEachServer runs a test in parallel with the local launcher and each way to
// pods, with a server in the sandbox.
func overEachServer(t *testing.T, test func(t *testing.T, s *launcher.Sandbox, ports map[string]int)) {
	overEachWay(t, func(t *testing.T, c *launchertest.Cluster) {
		s := harness.Launch(t, c.Launcher(), c.Spec("a"))
		test(t, s, harness.StartServer(t, s))
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		s := harness.Launch(t, launchertest.Local(t), launcher.Spec{ID: "a"})
		test(t, s, harness.StartServer(t, s))
	})
	overEachLevel(t, func(t *testing.T, l *launcher.Local) {
		s := harness.Launch(t, l, launcher.Spec{ID: "a"})
		test(t, s, harness.StartServer(t, s))
	})
}

// browser returns an HTTP client whose connections all go to this port, whatever
// the URL is.
func browser(t *testing.T, s *launcher.Sandbox, port int) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, port) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: harness.Hung}
}

func fetch(t *testing.T, client *http.Client, path string) string {
	t.Helper()
	r, err := client.Get("http://sandbox" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %q, %v", path, r.Status, body, err)
	}
	return string(body)
}

func TestHTTPServerOnTheLoopbackIsReached(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		client := browser(t, s, ports["http"])
		for range 3 { // over a single connection
			if got := fetch(t, client, "/"); got != "hello\n" {
				t.Errorf("got %q", got)
			}
		}
	})
}

func TestServerOnTheLoopbackOfIPv6IsReached(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		conn := harness.Dial(t, s, ports["echo6"])
		if got := conn.RemoteAddr().String(); got != fmt.Sprintf("[::1]:%d", ports["echo6"]) {
			t.Errorf("the server is %s", got)
		}
		if got := echoed(t, conn, strings.NewReader("hello")); got != "hello" {
			t.Errorf("got %q", got)
		}
	})
}

// echoed sends data to an echo, ends its direction, and returns what comes back.
func echoed(t *testing.T, conn harness.Conn, what io.Reader) string {
	t.Helper()
	go func() {
		_, _ = io.Copy(conn, what) // the caller notices missing data
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Error(err)
	}
	return string(got)
}

func TestWebSocketCarriesMessagesBothWays(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		dialer := websocket.Dialer{NetDialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return s.Dial(ctx, ports["http"]) }}
		conn, _, err := dialer.DialContext(t.Context(), "ws://sandbox/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const messages = 200
		go func() {
			for i := range messages {
				_ = conn.WriteMessage(websocket.TextMessage, fmt.Append(nil, "message ", i)) // the reader notices missing messages
			}
		}()
		for i := range messages {
			if _, got, err := conn.ReadMessage(); err != nil || string(got) != fmt.Sprint("message ", i) {
				t.Fatalf("message %d: %q, %v", i, got, err)
			}
		}
	})
}

func TestWhatAConnectionCarriesEachWayIsIdentical(t *testing.T) {
	size := harness.Size(256 << 20)
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		want, _ := harness.SHA(t, harness.Pattern(size, 1))
		conn := harness.Dial(t, s, ports["sum"])
		if _, err := io.Copy(conn, harness.Pattern(size, 1)); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); string(got) != fmt.Sprintf("%s %d <nil>", want, size) || err != nil {
			t.Errorf("the server got %q, %v", got, err)
		}
		conn = harness.Dial(t, s, ports["bytes"])
		if _, err := fmt.Fprintln(conn, size); err != nil {
			t.Fatal(err)
		}
		if got, n := harness.SHA(t, conn); got != want || n != size {
			t.Errorf("%d bytes came, identical: %v", n, got == want)
		}
	})
}

func Test200ConnectionsToAPortAtOnce(t *testing.T) {
	overEachServer(t, func(t *testing.T, s *launcher.Sandbox, ports map[string]int) {
		conns := make([]harness.Conn, 200)
		var all sync.WaitGroup
		for i := range conns {
			all.Go(func() {
				conn, err := s.Dial(t.Context(), ports["echo"])
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { conn.Close() })
				conns[i] = conn.(harness.Conn)
			})
		}
		all.Wait() // all are open now
		if t.Failed() {
			return
		}
		for i, conn := range conns {
			all.Go(func() {
				const size = 64 << 10
				want, err := io.ReadAll(harness.Pattern(size, uint64(i)))
				if got := echoed(t, conn, harness.Pattern(size, uint64(i))); got != string(want) || err != nil {
					t.Errorf("connection %d: %d bytes came back, and differ: %v", i, len(got), err)
				}
			})
		}
		all.Wait()
	})
}
