package tools_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
)

var checkpointID = regexp.MustCompile(`\b[0-9a-f]{16}\b`)

func TestModelsKeepStatesAndGoBackToThem(t *testing.T) {
	h := newHost(t, tools.Options{Workdir: "project"}, append(tools.Coding(), tools.Checkpointing()...)...)
	h.put("project/a", "1\n")
	h.put("project/b", "1\n")
	made := h.text("Checkpoint", `{"name": "tests pass"}`)
	has(t, made, "2 files")
	id := checkpointID.FindString(made)
	h.text("Bash", `{"command": "echo 2 > a; echo 2 > b; echo 2 > c"}`)
	if got := h.text("Diff", fmt.Sprintf(`{"from": %q}`, id)); strings.ReplaceAll(got, "m project/\n", "") != "M project/a\nM project/b\nA project/c" {
		t.Errorf("it differs by %q", got)
	}
	has(t, h.text("Diff", fmt.Sprintf(`{"from": %q, "text": true}`, id)), "M project/a\n--- a/project/a\n+++ b/project/a\n@@ -1 +1 @@\n-1\n+2\n")
	restored := h.text("Restore", fmt.Sprintf(`{"id": %q, "paths": ["a"]}`, id))
	h.hasFiles("one path was restored", map[string]string{"project/a": "1\n", "project/b": "2\n", "project/c": "2\n"})
	before := checkpointID.FindString(restored)
	h.text("Restore", fmt.Sprintf(`{"id": %q}`, id))
	h.hasFiles("all was restored", map[string]string{"project/a": "1\n", "project/b": "1\n"})
	has(t, h.text("Diff", fmt.Sprintf(`{"from": %q, "to": %q}`, id, before)), "A project/c")
	list := strings.Split(h.text("Checkpoints", `{}`), "\n")
	if len(list) != 3 || !strings.HasPrefix(list[2], id) || !strings.HasSuffix(list[2], "tests pass") || !strings.HasPrefix(list[1], before) {
		t.Errorf("the checkpoints are %q", list)
	}
}

func TestToolsOfCheckpointsSayWhatAModelDidWrong(t *testing.T) {
	h := newHost(t, tools.Options{}, tools.Checkpointing()...)
	has(t, h.text("Checkpoints", `{}`), "there are no checkpoints")
	id := checkpointID.FindString(h.text("Checkpoint", `{"name": "x\nnot a checkpoint"}`))
	if got := h.text("Checkpoints", `{}`); strings.Contains(got, "\n") || !strings.HasSuffix(got, "x not a checkpoint") {
		t.Errorf("the checkpoints are %q", got)
	}
	has(t, h.text("Diff", fmt.Sprintf(`{"from": %q}`, id)), "nothing differs")
	for input, want := range map[string]string{
		`{"id": "x"}`:                                       `there is no checkpoint "x"`,
		fmt.Sprintf(`{"id": %q}`, id[:15]):                  "there is no checkpoint",
		fmt.Sprintf(`{"id": %q}`, strings.Repeat("0", 64)):  "there is no such checkpoint",
		fmt.Sprintf(`{"id": %q, "paths": ["../x"]}`, id):    "cannot restore",
		fmt.Sprintf(`{"id": %q, "paths": ["typo"]}`, id):    "neither the checkpoint nor the working directory has \"typo\"",
		fmt.Sprintf(`{"id": %q, "paths": ["a\u0000"]}`, id): "NUL",
		fmt.Sprintf(`{"id": %q, "path": ["a"]}`, id):        `no parameter "path"`,
	} {
		has(t, h.refused("Restore", input), want)
	}
	has(t, h.refused("Diff", fmt.Sprintf(`{"from": %q, "to": "now"}`, id)), `there is no checkpoint "now"`)
	without := tools.New(withoutPlace(t), tools.Options{}, tools.Checkpointing()...)
	for _, name := range []string{"Checkpoint", "Checkpoints"} {
		if result, err := without.Call(t.Context(), name, json.RawMessage(`{}`)); err != nil || !result.IsError || !strings.Contains(result.Text(), "this sandbox keeps no checkpoints") {
			t.Errorf("%s without a place: %s, %v", name, result.Text(), err)
		}
	}
}

func TestARestoreThatIsNotWholeIsAnErrorToTheModel(t *testing.T) {
	h := newHost(t, tools.Options{}, tools.Checkpointing()...)
	h.put("safe", "1")
	c, err := h.sandbox.Checkpoint(t.Context(), checkpoint.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.put("safe", "2")
	if err := h.sandbox.Configure(t.Context(), podapi.Config{Protected: []string{"safe"}}); err != nil {
		t.Fatal(err)
	}
	has(t, h.refused("Restore", fmt.Sprintf(`{"id": %q}`, c.ID)), "(not as in the checkpoint: safe: ")
}
