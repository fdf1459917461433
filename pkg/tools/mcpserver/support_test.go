package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/mcpserver"
)

const token = "token-for-tests-only"

// hung is when a test gives up.
const hung = 2 * time.Minute

// served is a Handler of which each session has a sandbox of its own.
type served struct {
	*mcpserver.Handler
	launcher launcher.Launcher
	url      string
	opened   atomic.Int32
	ended    atomic.Int32
}

func serve(t *testing.T, opts mcpserver.HandlerOptions) *served {
	t.Helper()
	s := &served{launcher: launchertest.Local(t)}
	opts.Token = token
	var err error
	s.Handler, err = mcpserver.NewHandler(s.open, opts)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	s.url = server.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hung)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
		if opened, ended := s.opened.Load(), s.ended.Load(); opened != ended {
			t.Errorf("%d sessions were opened, and %d ended", opened, ended)
		}
	})
	return s
}

func (s *served) open() (*mcp.Server, func(), error) {
	sandbox, err := launcher.Lazy(s.launcher, launcher.Spec{})
	if err != nil {
		return nil, nil, err
	}
	s.opened.Add(1)
	session := tools.New(sandbox, tools.Options{}, tools.Coding()...)
	return mcpserver.New(sandbox, session), func() {
		sandbox.Close()
		s.ended.Add(1)
	}, nil
}

// sandboxes returns how many there are.
func (s *served) sandboxes(t *testing.T) int {
	t.Helper()
	list, err := s.launcher.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// client is a client with what it hears of progress.
type client struct {
	*mcp.ClientSession
	progress chan string
}

// connect connects a client, whose requests show the token.
func (s *served) connect(t *testing.T, through http.RoundTripper) (*client, error) {
	t.Helper()
	return connect(t, &mcp.StreamableClientTransport{Endpoint: s.url, HTTPClient: &http.Client{Transport: bearer{through}}})
}

func connect(t *testing.T, transport mcp.Transport) (*client, error) {
	t.Helper()
	progress := make(chan string, 1000)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Message },
	}).Connect(t.Context(), transport, nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { session.Close() })
	return &client{session, progress}, nil
}

func (s *served) mustConnect(t *testing.T) *client {
	t.Helper()
	c, err := s.connect(t, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type bearer struct{ through http.RoundTripper }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.through.RoundTrip(r)
}

// bash runs a command, with progress.
func (c *client) bash(ctx context.Context, command string) (string, error) {
	params := &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": command}}
	params.SetProgressToken("t")
	r, err := c.CallTool(ctx, params)
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

// begin starts a command that prints its pid and runs on, and returns it when
// it does. The error of the call comes through the channel.
func (c *client) begin(ctx context.Context, t *testing.T) (pid int, ended <-chan error) {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		_, err := c.bash(ctx, "echo $$; exec sleep 600")
		end <- err
	}()
	select {
	case text := <-c.progress:
		pid, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			t.Fatal(err)
		}
		return pid, end
	case err := <-end:
		t.Fatalf("the command ended: %v", err)
	case <-time.After(hung):
		t.Fatal("there is no progress")
	}
	return 0, nil
}

// awaitEnd waits for the end of a process.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	await(t, "the command's end", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatalf("%s did not come within %v", what, hung)
		}
	}
}
