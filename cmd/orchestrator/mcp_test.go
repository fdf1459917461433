//go:build linux

package main

// The official SDK's client lists and calls the tools that "orchestrator mcp"
// serves, over standard input and output and over HTTP.

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpTest is a test over one of the transports.
type mcpTest struct {
	*testing.T
	*cli
	serve func(args ...string) *mcpServer
}

func TestMCP(t *testing.T) {
	bin := buildPrograms(t)
	for name, test := range map[string]func(mcpTest){
		"ClientListsAndCallsEveryTool":              mcpTest.listsAndCallsEveryTool,
		"ClientReadsFilesAsResources":               mcpTest.readsFilesAsResources,
		"ClientHearsOfProgressAndCancels":           mcpTest.hearsOfProgressAndCancels,
		"SandboxIsLaunchedByTheFirstCallAndDeleted": mcpTest.launchesSandboxForTheFirstCall,
		"SignalEndsCommandsAndSandboxes":            mcpTest.endsByASignal,
		"CommandsReachWhatTheFlagsAllow":            mcpTest.servesTheWayOut,
		"TheWayOutIsAnothersUntilThatEnds":          mcpTest.standsByForTheWayOut,
	} {
		t.Run(name+"/stdio", func(t *testing.T) {
			t.Parallel()
			c := newCLIOf(t, bin)
			test(mcpTest{t, c, c.mcpOverStdio})
		})
		t.Run(name+"/HTTP", func(t *testing.T) {
			t.Parallel()
			c := newCLIOf(t, bin)
			test(mcpTest{t, c, c.mcpOverHTTP})
		})
	}
	t.Run("ClientSpeaksAnotherDialect", func(t *testing.T) {
		t.Parallel()
		speakClaudeCode(t, newCLIOf(t, bin))
	})
	t.Run("ClientsOverHTTPShareTheSandboxOfAnID", func(t *testing.T) {
		t.Parallel()
		shareSandbox(t, newCLIOf(t, bin))
	})
}

func (t mcpTest) listsAndCallsEveryTool() {
	s := t.serve("--id", "box", "--command", "count=wc").client(t.T, nil)
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
	want := []string{"Bash", "BashKill", "BashOutput", "Edit", "Glob", "Grep", "Read", "Write", "count"}
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
		{tool: "count", input: map[string]any{"args": []string{"-l", "a.txt"}}, says: "2 a.txt"},
		{tool: "Bash", input: map[string]any{"command": "cat a.txt; exit 3"}, says: "(exit code: 3)"},
		{tool: "BashOutput", input: map[string]any{"id": "none"}, says: "none", fails: true},
		{tool: "BashKill", input: map[string]any{"id": "none"}, says: "none", fails: true},
		{tool: "Grep", input: map[string]any{"patern": "x"}, says: "patern", fails: true},
	} {
		text, isError := callMCP(t.T, s, call.tool, call.input)
		if !strings.Contains(text, call.says) || isError != call.fails {
			t.Errorf("%s %v: %q, an error: %v", call.tool, call.input, text, isError)
		}
	}
}

func speakClaudeCode(t *testing.T, c *cli) {
	s := c.mcpOverStdio("--dialect", "claude-code").client(t, nil)
	for _, call := range []struct {
		tool  string
		input map[string]any
		says  string
		fails bool
	}{
		{tool: "Write", input: map[string]any{"file_path": "a.txt", "content": "one\ntwo\n"}, says: "File created successfully at: a.txt"},
		{tool: "Edit", input: map[string]any{"file_path": "a.txt", "old_string": "two", "new_string": "three"}, says: "The file a.txt has been updated successfully."},
		{tool: "Read", input: map[string]any{"file_path": "a.txt"}, says: "1\tone\n2\tthree\n3\t"},
		{tool: "Glob", input: map[string]any{"pattern": "*.txt"}, says: "a.txt"},
		{tool: "Grep", input: map[string]any{"pattern": "th.*e", "output_mode": "content"}, says: "a.txt:2:three"},
		{tool: "Bash", input: map[string]any{"command": "cat a.txt; exit 3", "description": "Fail"}, says: "Exit code 3\none\nthree", fails: true},
		{tool: "TaskStop", input: map[string]any{"task_id": "none"}, says: `there is no command with the id "none". The last ones are: `, fails: true},
		{tool: "Read", input: map[string]any{"path": "a.txt"}, says: `unknown argument "path": this tool's is "file_path"`, fails: true},
	} {
		text, isError := callMCP(t, s, call.tool, call.input)
		if !strings.HasPrefix(text, call.says) || isError != call.fails {
			t.Errorf("%s %v: %q, an error: %v", call.tool, call.input, text, isError)
		}
	}
}

func (t mcpTest) readsFilesAsResources() {
	s := t.serve("--id", "box").client(t.T, nil)
	callMCP(t.T, s, "Bash", map[string]any{"command": `printf 'h\303\251llo' >'a b.txt'; printf '\377' >bin`})
	dir, _ := callMCP(t.T, s, "Bash", map[string]any{"command": "pwd"})
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
		t.Error("a missing file was read")
	}
}

func (t mcpTest) hearsOfProgressAndCancels() {
	s, call := beginMCP(t.T, t.serve("--id", "box"))
	call.cancel()
	call.awaitGone(t.T)
	if text, _ := callMCP(t.T, s, "Bash", map[string]any{"command": "echo on"}); text != "on\n" {
		t.Errorf("the next call: %q", text)
	}
}

func (t mcpTest) endsByASignal() {
	for _, args := range [][]string{nil, {"--id", "box"}} {
		server := t.serve(args...)
		_, call := beginMCP(t.T, server)
		if err := server.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := server.wait(); status != 128+int(syscall.SIGTERM) {
			t.Errorf("%q: exit status %d", args, status)
		}
		call.cancel() // otherwise a client over HTTP would go on looking for its server for a while
		call.awaitGone(t.T)
		if n := t.sandboxes(); n != 1 {
			t.Errorf("%q: afterwards there are %d sandboxes", args, n)
		}
	}
}

func (t mcpTest) launchesSandboxForTheFirstCall() {
	s := t.serve().client(t.T, nil)
	if _, err := s.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if n := t.sandboxes(); n != 1 {
		t.Errorf("before a call there are %d sandboxes", n)
	}
	callMCP(t.T, s, "Write", map[string]any{"path": "x", "content": "x"})
	if n := t.sandboxes(); n != 2 {
		t.Errorf("after a call there are %d sandboxes", n)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for begun := time.Now(); t.sandboxes() != 1; {
		if time.Since(begun) > hung {
			t.Fatal("the sandbox outlives the server")
		}
	}
}

func shareSandbox(t *testing.T, c *cli) {
	server := c.mcpOverHTTP("--id", "box", "--max-sessions", "2")
	a, b := server.client(t, nil), server.client(t, nil)
	callMCP(t, a, "Write", map[string]any{"path": "x", "content": "of a"})
	a.Close()
	if text, _ := callMCP(t, b, "Bash", map[string]any{"command": "cat x"}); text != "of a" {
		t.Errorf("the other has %q", text)
	}
	if n := c.sandboxes(); n != 1 {
		t.Errorf("there are %d sandboxes", n)
	}
}
