package tools_test

import (
	"encoding/json"
	"testing"

	uuidv7 "github.com/google/uuid"

	"github.com/podagent/podagent/pkg/tools"
)

// TestCallWithAnExecIDRunsItsCommandOnce makes each call twice, the second time
// as a host does that has taken over from another: by a session of its own.
func TestCallWithAnExecIDRunsItsCommandOnce(t *testing.T) {
	first := newHost(t, tools.Options{}, tools.Bash{}, tools.Command{Name: "Append", Path: "sh", Args: []string{"-c", `echo ran >> "$0"; echo "out of $0"`}})
	second := tools.New(first.sandbox, tools.Options{}, tools.Bash{}, tools.Command{Name: "Append", Path: "sh", Args: []string{"-c", `echo ran >> "$0"; echo "out of $0"`}})
	for _, c := range []struct{ tool, input, file string }{
		{"Bash", `{"command": "echo ran >> foreground; echo out"}`, "foreground"},
		{"Bash", `{"command": "echo ran >> failing; exit 3"}`, "failing"},
		{"Bash", `{"command": "echo ran >> background", "run_in_background": true}`, "background"},
		{"Append", `{"args": ["command"]}`, "command"},
	} {
		id, err := uuidv7.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		call := tools.Call{Name: c.tool, Input: json.RawMessage(c.input), ExecID: id.String()}
		one, err1 := first.Do(t.Context(), call)
		two, err2 := second.Do(t.Context(), call)
		if err1 != nil || err2 != nil || one.IsError || one.Text() != two.Text() {
			t.Errorf("%s: %q, %v, and again %q, %v", c.file, one.Text(), err1, two.Text(), err2)
		}
		if ran := first.text("Bash", `{"command": "until [ -e `+c.file+` ]; do sleep 0.01; done; cat `+c.file+`"}`); ran != "ran\n" {
			t.Errorf("%s: %q", c.file, ran)
		}
		call.Input = json.RawMessage(`{"command": "echo another >> another"}`)
		if c.tool != "Bash" {
			continue
		}
		if result, err := second.Do(t.Context(), call); err != nil || !result.IsError {
			t.Errorf("another command of the same id: %q, %v", result.Text(), err)
		}
	}
	if result := first.text("Bash", `{"command": "ls"}`); result != "background\ncommand\nfailing\nforeground\n" {
		t.Errorf("there are %q", result)
	}
}
