package e2e

// The Claude Agent SDK, unmodified (testdata/agentsdkclient), works in a sandbox by its aliases of
// tools. There is no model: a script calls the tools by the names that a model would.

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/podagent/podagent/test/e2e/internal/harness"
)

func TestToolsOfTheClaudeAgentSDKAreAliasesOfASandboxs(t *testing.T) {
	if os.Getenv(harness.FullEnv) == "" {
		t.Skip("the SDK has a program of 400 MB")
	}
	t.Parallel()
	steps := []struct {
		name, input string
		says        string
		fails       bool
	}{
		{name: "Bash", input: `{"command": "pwd; echo one > f", "description": "Say where"}`, says: "/workspace"},
		{name: "Read", input: `{"file_path": "f"}`, says: "1\tone\n2\t"},
		{name: "Write", input: `{"file_path": "g", "content": "two\n"}`, says: "File created successfully at: g"},
		{name: "Edit", input: `{"file_path": "g", "old_string": "two", "new_string": "three"}`, says: "The file g has been updated successfully."},
		{name: "Grep", input: `{"pattern": "three", "output_mode": "content"}`, says: "g:1:three"},
		{name: "Glob", input: `{"pattern": "?"}`, says: "g\nf"},
		{name: "Bash", input: `{"command": "cat g; exit 3"}`, says: "Exit code 3\nthree", fails: true},
		{name: "Read", input: `{"path": "f"}`, says: `unknown argument "path": this tool's is "file_path"`, fails: true},
		{name: "TaskStop", input: `{"task_id": "none"}`, says: `there is no command with the id "none"`, fails: true},
	}
	var calls []map[string]any
	for _, s := range steps {
		calls = append(calls, map[string]any{"name": s.name, "input": json.RawMessage(s.input)})
	}
	script, err := json.Marshal(calls)
	if err != nil {
		t.Fatal(err)
	}
	report := runAgentSDK(t, string(script))
	if len(report.Told) != len(steps) {
		t.Fatalf("the model is told %+v", report.Told)
	}
	for i, s := range steps {
		if told := report.Told[i]; !strings.Contains(told.Text, s.says) || told.IsError != s.fails {
			t.Errorf("%s %s: %q, an error: %v", s.name, s.input, told.Text, told.IsError)
		}
	}
	for _, name := range report.Offered {
		if name == "Bash" || name == "Read" {
			t.Errorf("the model is offered a tool of this machine: %q", report.Offered)
		}
	}
}

// agentReport is what a model is offered and told.
type agentReport struct {
	Offered []string `json:"offered"`
	Told    []struct {
		Text    string `json:"text"`
		IsError bool   `json:"isError"`
	} `json:"told"`
}

func runAgentSDK(t *testing.T, script string) (report agentReport) {
	t.Helper()
	client := installNode(t, "testdata/agentsdkclient")
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Hung)
	defer cancel()
	home := t.TempDir()
	cmd := exec.CommandContext(ctx, "node", "client.mjs", home, harness.ProgramFile(t, "cmd/orchestrator"), "mcp", "--backend", "local", "--dialect", "claude-code")
	cmd.Dir, cmd.Stdin, cmd.Stderr = client, strings.NewReader(script), t.Output()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "PODAGENT_BIN=" + harness.ProgramFile(t, "cmd/podagent")}
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return report
}
