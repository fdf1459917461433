package e2e

// Clients of the Model Context Protocol work in a pod: that of the official Go SDK,
// and one in another language, made with the TypeScript SDK (testdata/mcpclient).

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// mcpStep is a call of a tool and its expected result.
type mcpStep struct {
	Tool  string         `json:"tool"`
	Input map[string]any `json:"input"`
	// Cancel cancels the call at its first progress.
	Cancel bool `json:"cancel,omitempty"`

	says     string
	fails    bool
	progress string
}

type args = map[string]any

// mcpSteps call every tool. "ID" stands for the last command id in a result.
var mcpSteps = []mcpStep{
	{Tool: "Write", Input: args{"path": "a.txt", "content": "one\ntwo\n"}, says: "Wrote a.txt (2 lines, 8 bytes)"},
	{Tool: "Edit", Input: args{"path": "a.txt", "old_text": "two", "new_text": "three"}, says: "+three"},
	{Tool: "Read", Input: args{"path": "a.txt"}, says: "three"},
	{Tool: "Read", Input: args{"path": "b.txt"}, says: "a.txt", fails: true},
	{Tool: "Glob", Input: args{"pattern": "*.txt"}, says: "a.txt"},
	{Tool: "Grep", Input: args{"pattern": "th.*e"}, says: "a.txt:2: three"},
	{Tool: "Grep", Input: args{"patern": "x"}, says: "patern", fails: true},
	{Tool: "count", Input: args{"args": []string{"-l", "a.txt"}}, says: "2 a.txt"},
	{Tool: "Bash", Input: args{"command": "cat a.txt; exit 3"}, says: "(exit code: 3)"},
	{Tool: "Bash", Input: args{"command": `echo "$API_TOKEN" ${#API_TOKEN}`}, says: "[REDACTED:API_TOKEN] 16"},
	{Tool: "Bash", Input: args{"command": `cat >/tmp/s <<<"$API_TOKEN"; printf 'h\303\251llo' >'/tmp/a b.txt'; printf '\0\377' >/tmp/bin; : >/tmp/empty`}, says: "(no output)"},
	{Tool: "Bash", Input: args{"command": "echo begun; >/tmp/begun; exec sleep 600", "run_in_background": true}, says: "Its id is "},
	{Tool: "Bash", Input: args{"command": "until [ -e /tmp/begun ]; do sleep 0.05; done", "timeout": 60}, says: "(no output)"},
	{Tool: "BashOutput", Input: args{"id": "ID"}},
	{Tool: "BashKill", Input: args{"id": "ID"}, says: "ended"},
	{Tool: "BashOutput", Input: args{"id": "ID", "offset": 0}, says: "begun"},
	{Tool: "Bash", Input: args{"command": "echo $$ >/tmp/pid; echo working; exec sleep 600"}, Cancel: true, progress: "working\n"},
	{Tool: "Bash", Input: args{"command": "while kill -0 $(cat /tmp/pid) 2>/dev/null; do sleep 0.05; done; echo gone", "timeout": 60}, says: "gone"},
}

// mcpReads are resources and their expected contents.
var mcpReads = []struct {
	uri  string
	want mcpRead
}{
	{"file:///tmp/a%20b.txt", mcpRead{Text: "héllo"}},
	{"file:///tmp/bin", mcpRead{Blob: base64.StdEncoding.EncodeToString([]byte("\x00\xff"))}},
	{"file:///tmp/empty", mcpRead{}},
	{"file:///tmp/s", mcpRead{Text: "[REDACTED:API_TOKEN]\n"}},
	{"file:///tmp/none", mcpRead{Error: "Resource not found"}},
}

func TestMCPClientsCallEveryToolOnAPod(t *testing.T) {
	t.Parallel()
	node := installMCPClient(t)
	program := harness.ProgramFile(t, "cmd/orchestrator")
	clients := map[string]mcpClient{"go": runGoClient, "npm": node.run}
	for name, client := range clients {
		t.Run(name+" over stdio", func(t *testing.T) {
			t.Parallel()
			onPod(t, program, func(p *mcpProgram) mcpReport { return client(t, p, "") })
		})
		t.Run(name+" over HTTP", func(t *testing.T) {
			t.Parallel()
			onPod(t, program, func(p *mcpProgram) mcpReport { return client(t, p, p.serve(t)) })
		})
	}
}

// onPod runs a client, and checks its results and that no pod is left.
func onPod(t *testing.T, program string, client func(*mcpProgram) mcpReport) {
	c := launchertest.NewCluster(t, launcher.Restricted)
	report := client(newMCPProgram(t, program, c))
	slices.Sort(report.Tools)
	want := []string{"Bash", "BashKill", "BashOutput", "Edit", "Glob", "Grep", "Read", "Write", "count"}
	if diff := cmp.Diff(want, report.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	checkSteps(t, report.Calls)
	for i, read := range mcpReads {
		if got := report.Reads[i]; got.Text != read.want.Text || got.Blob != read.want.Blob || !strings.HasSuffix(got.Error, read.want.Error) || (got.Error != "") != (read.want.Error != "") {
			t.Errorf("%s: %+v", read.uri, got)
		}
	}
	if text := fmt.Sprint(report); strings.Contains(text, mcpSecret) {
		t.Errorf("a secret was revealed: %s", text)
	}
	awaitNoSandbox(t, c)
}

func checkSteps(t *testing.T, got []mcpResult) {
	t.Helper()
	if len(got) != len(mcpSteps) {
		t.Fatalf("%d results of %d calls", len(got), len(mcpSteps))
	}
	for i, step := range mcpSteps {
		r := got[i]
		if !strings.Contains(r.Text, step.says) || r.IsError != step.fails || (r.Error != "") != step.Cancel || !strings.Contains(r.Progress, step.progress) {
			t.Errorf("%s %v: %+v", step.Tool, step.Input, r)
		}
	}
}
