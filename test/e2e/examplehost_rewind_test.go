package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/test/e2e/internal/harness"
)

// breakingScript is what a model says that makes the job's test pass, and breaks it again by a command.
const breakingScript = `[
	{"calls": [{"name": "Write", "input": {"path": "value", "content": "1\n"}}]},
	{"calls": [{"name": "Bash", "input": {"command": "echo 2 > value; echo log > debris; rm README.md"}}]},
	{"calls": [{"name": "Bash", "input": {"command": "cat value; ls"}}]},
	{"text": "All is done."}
]`

const valueTest = "echo the value is $(cat value); grep -qx 1 value"

func breakingHost(t *testing.T) *exampleHost {
	t.Helper()
	h, _, _ := localHost(t, harness.ProgramFile(t, "pkg/tools/examples/host"))
	script := filepath.Join(t.TempDir(), "script.json")
	if err := os.WriteFile(script, []byte(breakingScript), 0o644); err != nil {
		t.Fatal(err)
	}
	h.args = append(h.args, "-script", script, "-test", valueTest)
	return h
}

// isRewoundOnce compares the conversation with that of a job whose test has failed before the first turn, which is not
// the model's fault, and after the second.
func (h *exampleHost) isRewoundOnce(t *testing.T) {
	t.Helper()
	want := []string{
		"system: Be careful.",
		"user: Do it.",
		"model: ",
		`Write -> false "Wrote value (1 line, 2 bytes)"`,
		"model: ",
		`Bash -> false "(no output)"`,
		"user: Your last changes made the test fail, and were undone: the workspace is as it was when the test last passed. Its output was:\nthe value is 2\nexit status 1",
		"model: ",
		`Bash -> false "1\nAGENTS.md\nREADME.md\nvalue\n"`,
		"model: All is done.",
	}
	if diff := cmp.Diff(want, h.transcript(t)); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
}

func TestExampleHostRewindsAfterAFailedTest(t *testing.T) {
	t.Parallel()
	h := breakingHost(t)
	try := h.try(t)
	try.succeeds()
	h.isRewoundOnce(t)
	if tested := strings.Count(try.text(), "msg=tested"); tested != 4 {
		t.Errorf("the test ran %d times", tested)
	}
	// The store has the checkpoint of each turn.
	snapshot, err := h.store.Load(t.Context(), h.job)
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Messages []struct {
			Calls []struct{ Begun struct{ Exec string } }
		}
		Progress struct{ Steps []tools.Step }
	}
	if err := json.Unmarshal(snapshot.Data, &c); err != nil {
		t.Fatal(err)
	}
	id := func(message int) string { return c.Messages[message].Calls[0].Begun.Exec }
	got := c.Progress.Steps
	if len(got) != 5 || got[0].Call != tools.Beginning || got[1].Call != id(1) || got[2].Call != id(2) || got[3].Call != id(1) || got[3].Undone == "" || got[3].Checkpoint != got[1].Checkpoint || got[4].Call != id(4) {
		t.Errorf("the steps are %+v", got)
	}
}

// TestExampleHostRewindsOnceWheneverItIsKilled kills the host after growing times, also while it tests and rewinds.
func TestExampleHostRewindsOnceWheneverItIsKilled(t *testing.T) {
	t.Parallel()
	h := breakingHost(t)
	h.untilDone(t, 4*time.Millisecond)
	h.isRewoundOnce(t)
	h.forgets(t)
}
