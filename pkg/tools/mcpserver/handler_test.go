package mcpserver_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

// post makes a request that would begin a session, changed.
func (s *served) post(t *testing.T, body string, change func(*http.Request)) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	change(r)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response
}

func TestRequestsNeedTheToken(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{})
	for _, test := range []struct {
		header string
		want   int
	}{
		{"", http.StatusUnauthorized},
		{"Bearer", http.StatusUnauthorized},
		{"Bearer ", http.StatusUnauthorized},
		{"Bearer " + token[1:], http.StatusUnauthorized},
		{"Bearer " + token + "x", http.StatusUnauthorized},
		{"Basic " + token, http.StatusUnauthorized},
		{token, http.StatusUnauthorized},
		{"bearer " + token, http.StatusOK},
		{"Bearer " + token, http.StatusOK},
	} {
		r := s.post(t, initialize, func(r *http.Request) { r.Header.Set("Authorization", test.header) })
		if r.StatusCode != test.want || (r.Header.Get("WWW-Authenticate") == "Bearer") != (test.want == http.StatusUnauthorized) {
			t.Errorf("%q: %s, %v", test.header, r.Status, r.Header)
		}
	}
	if n := s.opened.Load(); n != 2 {
		t.Errorf("%d sessions were opened", n)
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", "short", "with a space in it!!", "a line's end 12345\n", "ümläutümläutümläut"} {
		if _, err := mcpserver.NewHandler(nil, mcpserver.HandlerOptions{Token: token}); err == nil || strings.Contains(err.Error(), "short") {
			t.Errorf("%q: %v", token, err)
		}
	}
}

func TestPagesOfBrowsersAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{Origins: []string{"https://example.com"}})
	for _, test := range []struct {
		origin, host string
		want         int
	}{
		{"https://example.com", "", http.StatusOK},
		{"https://example.com.evil.example", "", http.StatusForbidden},
		{"http://example.com", "", http.StatusForbidden},
		{s.url, "", http.StatusForbidden}, // nothing of ours is a page
		{"null", "", http.StatusForbidden},
		{"http://evil.example", "evil.example", http.StatusForbidden},
		{"", "evil.example", http.StatusForbidden}, // a name that was made to resolve to this machine
		{"", "localhost:1", http.StatusOK},
	} {
		r := s.post(t, initialize, func(r *http.Request) {
			if test.origin != "" {
				r.Header.Set("Origin", test.origin)
			}
			r.Host = test.host
		})
		if r.StatusCode != test.want {
			t.Errorf("origin %q, host %q: %s", test.origin, test.host, r.Status)
		}
	}
	get := s.post(t, "", func(r *http.Request) {
		r.Method = http.MethodGet
		r.Header.Set("Origin", "http://evil.example")
	})
	if get.StatusCode != http.StatusForbidden {
		t.Errorf("GET: %s", get.Status)
	}
}

func TestRequestThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{})
	r := s.post(t, strings.Repeat(" ", 16<<20)+initialize, func(*http.Request) {})
	if r.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(r.Status)
	}
}

func TestEachSessionHasItsSandboxAndThereAreSoMany(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{MaxSessions: 2})
	a, b := s.mustConnect(t), s.mustConnect(t)
	if n := s.sandboxes(t); n != 0 {
		t.Errorf("before the first call there are %d sandboxes", n)
	}
	for _, c := range []*client{a, b} {
		if _, err := c.bash(t.Context(), "echo x >>file"); err != nil {
			t.Fatal(err)
		}
		if text, err := c.bash(t.Context(), "cat file"); text != "x\n" {
			t.Errorf("the file has %q, %v", text, err)
		}
	}
	if n := s.sandboxes(t); n != 2 {
		t.Errorf("two clients have %d sandboxes", n)
	}
	if c, err := s.connect(t, http.DefaultTransport); err == nil {
		t.Error("there is a third session")
		c.Close()
	}
	a.Close()
	await(t, "the end of its sandbox", func() bool { return s.sandboxes(t) == 1 })
	await(t, "room for another session", func() bool {
		_, err := s.connect(t, http.DefaultTransport)
		return err == nil
	})
}

func TestIdleSessionEndsWithItsSandbox(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{IdleTimeout: 500 * time.Millisecond})
	var c *client
	await(t, "a call before the session is idle, which it is not during the call", func() bool {
		var err error
		if c, err = s.connect(t, http.DefaultTransport); err == nil {
			_, err = c.bash(t.Context(), "sleep 1")
		}
		return err == nil
	})
	await(t, "the end of the sandbox", func() bool { return s.sandboxes(t) == 0 })
	if _, err := c.bash(t.Context(), "true"); err == nil {
		t.Error("the session goes on")
	}
}

func TestEndOfASessionEndsItsCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{})
	c := s.mustConnect(t)
	pid, ended := c.begin(t.Context(), t)
	r := s.post(t, "", func(r *http.Request) {
		r.Method = http.MethodDelete
		r.Header.Set("Mcp-Session-Id", c.ID())
	})
	if r.StatusCode != http.StatusNoContent {
		t.Errorf("DELETE: %s", r.Status)
	}
	if err := <-ended; err == nil {
		t.Error("the command succeeded")
	}
	awaitEnd(t, pid)
	await(t, "the end of the sandbox", func() bool { return s.sandboxes(t) == 0 })
}

func TestShutdownEndsCommandsAndSessions(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{})
	a, b := s.mustConnect(t), s.mustConnect(t)
	pid, ended := a.begin(t.Context(), t)
	if _, err := b.bash(t.Context(), "true"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the command succeeded")
	}
	awaitEnd(t, pid)
	if n := s.sandboxes(t); n != 0 {
		t.Errorf("there are %d sandboxes", n)
	}
	if r := s.post(t, initialize, func(*http.Request) {}); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a session after the end: %s", r.Status)
	}
}

func TestCancelledCallEndsItsCommand(t *testing.T) {
	t.Parallel()
	c := serve(t, mcpserver.HandlerOptions{}).mustConnect(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pid, ended := c.begin(ctx, t)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call succeeded")
	}
	awaitEnd(t, pid)
	if text, err := c.bash(t.Context(), "echo on"); text != "on\n" {
		t.Errorf("the next call: %q, %v", text, err)
	}
}

func TestAnswerReachesAClientWhoseConnectionWasCut(t *testing.T) {
	t.Parallel()
	s := serve(t, mcpserver.HandlerOptions{})
	var w wires
	c, err := s.connect(t, &http.Transport{DialContext: w.dial})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	wasCut := filepath.Join(t.TempDir(), "cut")
	go func() {
		<-c.progress
		w.cut()
		_ = os.WriteFile(wasCut, nil, 0o600) // without it the command does not end
	}()
	text, err := c.bash(ctx, fmt.Sprintf("echo one; until [ -e %s ]; do sleep 0.01; done; echo two", wasCut))
	if text != "one\ntwo\n" {
		t.Errorf("%q, %v", text, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.conns) < 2 {
		t.Error("the client has connected once only")
	}
}

// wires are connections that can be cut.
type wires struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (w *wires) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.conns = append(w.conns, conn)
	}
	return conn, err
}

func (w *wires) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, conn := range w.conns {
		conn.Close()
	}
}
