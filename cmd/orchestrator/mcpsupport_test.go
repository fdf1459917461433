//go:build linux

package main

// Servers and clients for the tests of "orchestrator mcp".

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServer is the server program, and how to connect to it.
type mcpServer struct {
	*exec.Cmd
	transport mcp.Transport
	// wait waits until the server ends and returns its exit status.
	wait func() int
}

func (c *cli) mcpCommand(args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(c.bin, "orchestrator"), append([]string{"mcp"}, args...)...)
	cmd.Env, cmd.Stderr = c.env, c.t.Output()
	return cmd
}

func (c *cli) mcpOverStdio(args ...string) *mcpServer {
	c.t.Helper()
	cmd := c.mcpCommand(args...)
	in, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(cmd)
	end := sync.OnceValue(func() int {
		_ = cmd.Wait() // ProcessState has the status
		return cmd.ProcessState.ExitCode()
	})
	c.t.Cleanup(func() { end() })
	c.t.Cleanup(func() { in.Close() })
	return &mcpServer{cmd, &mcp.IOTransport{Reader: out, Writer: in}, end}
}

func (c *cli) mcpOverHTTP(args ...string) *mcpServer {
	c.t.Helper()
	cmd := c.mcpCommand(append([]string{"--http", ":0", "-o", "json"}, args...)...)
	cmd.Env = append(slices.Clip(c.env), "PODAGENT_MCP_TOKEN="+mcpTestToken)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	c.start(cmd)
	end := sync.OnceValue(func() int {
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	})
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		end()
	})
	var said struct{ URL string }
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err := errors.Join(err, json.Unmarshal(line, &said)); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	return &mcpServer{cmd, &mcp.StreamableClientTransport{Endpoint: said.URL, HTTPClient: &http.Client{Transport: withToken{}}}, end}
}

func (c *cli) start(cmd *exec.Cmd) {
	c.t.Helper()
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
}

const mcpTestToken = "token-for-tests-only"

// withToken sends the token in each request.
type withToken struct{}

func (withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+mcpTestToken)
	return http.DefaultTransport.RoundTrip(r)
}

// client connects a client.
func (s *mcpServer) client(t *testing.T, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), s.transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

// callMCP calls a tool, and returns its text.
func callMCP(t *testing.T, s *mcp.ClientSession, name string, input map[string]any) (text string, isError bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: input})
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range r.Content {
		text += content.(*mcp.TextContent).Text
	}
	return text, r.IsError
}

// runningCall is a call of Bash that has printed its pid and is still running.
type runningCall struct {
	pid    int
	cancel context.CancelFunc
	ended  chan error
}

// beginMCP begins such a call and learns the pid from its progress.
func beginMCP(t *testing.T, server *mcpServer) (*mcp.ClientSession, *runningCall) {
	t.Helper()
	said := make(chan string, 100)
	s := server.client(t, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { said <- r.Params.Message },
	})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := &runningCall{cancel: cancel, ended: make(chan error, 1)}
	params := &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": "echo $$; exec sleep 600"}}
	params.SetProgressToken("t")
	go func() {
		_, err := s.CallTool(ctx, params)
		c.ended <- err
	}()
	select {
	case text := <-said:
		var err error
		if c.pid, err = strconv.Atoi(strings.TrimSpace(text)); err != nil {
			t.Fatalf("progress %q", text)
		}
	case err := <-c.ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(hung):
		t.Fatal("no progress was reported")
	}
	return s, c
}

// awaitGone waits until the call has failed and its command has ended.
func (c *runningCall) awaitGone(t *testing.T) {
	t.Helper()
	if err := <-c.ended; err == nil {
		t.Error("the call succeeded")
	}
	for begun := time.Now(); syscall.Kill(c.pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > hung {
			t.Fatal("the command is still running")
		}
	}
}

// sandboxes returns the number of sandboxes, including box.
func (c *cli) sandboxes() int {
	c.t.Helper()
	var out strings.Builder
	c.run(nil, &out, "list", "-o", "json")
	return strings.Count(out.String(), "\n")
}
