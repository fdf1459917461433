//go:build linux

package main

// The official SDK's client lists and calls the tools that "orchestrator mcp"
// serves.

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpClient connects to a server that the program is.
func mcpClient(t *testing.T, c *cli, opts *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	t.Helper()
	cmd := exec.Command(filepath.Join(c.bin, "orchestrator"), append([]string{"mcp"}, args...)...)
	cmd.Env, cmd.Stderr = c.env, t.Output()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
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

func TestMCPClientListsAndCallsEveryTool(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := mcpClient(t, c, nil, "--id", "box")
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.InputSchema == nil || tool.Annotations == nil {
			t.Errorf("%s is not described: %+v", tool.Name, tool)
		}
	}
	want := []string{"Bash", "BashKill", "BashOutput", "Edit", "Glob", "Grep", "Read", "Write"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for _, call := range []struct {
		tool  string
		input map[string]any
		says  string
		fails bool
	}{
		{tool: "Write", input: map[string]any{"path": "a.txt", "content": "one\ntwo\n"}, says: "Wrote a.txt (2 lines, 8 bytes)"},
		{tool: "Edit", input: map[string]any{"path": "a.txt", "old_text": "two", "new_text": "three"}, says: "+three"},
		{tool: "Read", input: map[string]any{"path": "a.txt"}, says: "three"},
		{tool: "Read", input: map[string]any{"path": "b.txt"}, says: "b.txt", fails: true},
		{tool: "Glob", input: map[string]any{"pattern": "*.txt"}, says: "a.txt"},
		{tool: "Grep", input: map[string]any{"pattern": "th.*e"}, says: "a.txt:2: three"},
		{tool: "Bash", input: map[string]any{"command": "cat a.txt; exit 3"}, says: "(exit code: 3)"},
		{tool: "BashOutput", input: map[string]any{"id": "none"}, says: "none", fails: true},
		{tool: "BashKill", input: map[string]any{"id": "none"}, says: "none", fails: true},
		{tool: "Grep", input: map[string]any{"patern": "x"}, says: "patern", fails: true},
	} {
		text, isError := callMCP(t, s, call.tool, call.input)
		if !strings.Contains(text, call.says) || isError != call.fails {
			t.Errorf("%s %v: %q, an error: %v", call.tool, call.input, text, isError)
		}
	}
}

func TestMCPClientReadsFilesAsResources(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	s := mcpClient(t, c, nil, "--id", "box")
	callMCP(t, s, "Bash", map[string]any{"command": `printf 'h\303\251llo' >'a b.txt'; printf '\377' >bin`})
	dir, _ := callMCP(t, s, "Bash", map[string]any{"command": "pwd"})
	dir = strings.Fields(dir)[0]
	text, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + dir + "/a%20b.txt"})
	if err != nil || text.Contents[0].Text != "héllo" {
		t.Errorf("a text: %+v, %v", text, err)
	}
	bin, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + dir + "/bin"})
	if err != nil || string(bin.Contents[0].Blob) != "\xff" {
		t.Errorf("bytes: %+v, %v", bin, err)
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "file://" + dir + "/none"}); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestMCPClientHearsOfProgressAndCancels(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	said := make(chan string, 100)
	s := mcpClient(t, c, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { said <- r.Params.Message },
	}, "--id", "box")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	params := &mcp.CallToolParams{Name: "Bash", Arguments: map[string]any{"command": "echo $$ >pid; echo working; sleep 600"}}
	params.SetProgressToken("t")
	ended := make(chan error)
	go func() {
		_, err := s.CallTool(ctx, params)
		ended <- err
	}()
	select {
	case text := <-said:
		if text != "working\n" {
			t.Errorf("progress %q", text)
		}
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("no progress is told")
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("a cancelled call succeeded")
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		text, _ := callMCP(t, s, "Bash", map[string]any{"command": "kill -0 $(cat pid) 2>/dev/null && echo runs || echo gone"})
		if strings.HasPrefix(text, "gone") {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("the command of a cancelled call: %q", text)
		}
	}
}

func TestMCPLaunchesItsSandboxForTheFirstCall(t *testing.T) {
	t.Parallel()
	c := newCLI(t)
	sandboxes := func() int {
		var out strings.Builder
		c.run(nil, &out, "list", "-o", "json")
		return strings.Count(out.String(), "\n")
	}
	s := mcpClient(t, c, nil)
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := sandboxes(); n != 1 {
		t.Errorf("before a call there are %d sandboxes", n)
	}
	callMCP(t, s, "Write", map[string]any{"path": "x", "content": "x"})
	if n := sandboxes(); n != 2 {
		t.Errorf("after a call there are %d sandboxes", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := sandboxes(); n != 1 {
		t.Errorf("after the end there are %d sandboxes", n)
	}
}
