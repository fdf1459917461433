package tools_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/checkpoint"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
)

// do makes a call with an id, which is to succeed.
func (h *host) do(id, name, input string) tools.Result {
	h.t.Helper()
	result, err := h.Do(h.t.Context(), tools.Call{ID: id, Name: name, Input: json.RawMessage(input)})
	if err != nil || result.IsError {
		h.t.Fatalf("%s: %v, %s", id, err, result.Text())
	}
	return result
}

// files returns the texts of all files of the workdir, by their names.
func (h *host) files() map[string]string {
	h.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(h.workdir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var text []byte
			text, err = os.ReadFile(path)
			name, _ := filepath.Rel(h.workdir, path)
			all[name] = string(text)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

func (h *host) rewind(call string) {
	h.t.Helper()
	if done, err := h.Rewind(h.t.Context(), call); err != nil {
		h.t.Fatalf("rewinding to %s: %+v, %v", call, done, err)
	}
}

func (h *host) hasFiles(when string, want map[string]string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.files()); diff != "" {
		h.t.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

func calls(steps []tools.Step) (calls []string) {
	for _, s := range steps {
		calls = append(calls, s.Call)
	}
	return calls
}

func TestRewindBringsBackWhatWasThereAfterACall(t *testing.T) {
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{Exclude: []string{"cache/"}}})
	h.put("seed", "0")
	if err := h.Begin(t.Context()); err != nil || len(h.History()) != 1 {
		t.Fatal(h.History(), err)
	}
	h.do("w", "Write", `{"path": "a", "content": "1"}`)
	h.do("r", "Read", `{"path": "a"}`)
	h.do("b", "Bash", `{"command": "echo 2 > a; rm seed; mkdir cache d; echo 1 > cache/x; echo 1 > .hidden; ln -s a d/link"}`)
	h.do("e", "Edit", `{"path": ".hidden", "old_text": "1", "new_text": "2"}`)
	if got := calls(h.History()); !slices.Equal(got, []string{tools.Beginning, "w", "b", "e"}) {
		t.Errorf("the history has %q", got)
	}
	steps := []struct {
		call string
		want map[string]string
	}{
		{"b", map[string]string{"a": "2\n", "cache/x": "1\n", ".hidden": "1\n"}},
		{"w", map[string]string{"a": "1", "seed": "0", "cache/x": "1\n"}},
		{tools.Beginning, map[string]string{"seed": "0", "cache/x": "1\n"}},
		{"e", map[string]string{"a": "2\n", "cache/x": "1\n", ".hidden": "2\n"}},
	}
	for _, step := range steps {
		h.rewind(step.call)
		h.hasFiles("rewound to "+step.call, step.want)
	}
	undone := h.History()[4:]
	if len(undone) != len(steps) || undone[0].Call != "b" || undone[0].Checkpoint != h.History()[2].Checkpoint {
		t.Fatalf("the history of rewinds is %+v", undone)
	}
	// What was there before a rewind can be restored, too.
	if _, err := h.sandbox.Restore(t.Context(), undone[3].Undone, checkpoint.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	h.hasFiles("undoing the last rewind", steps[2].want)
}

func TestCheckpointsOfCallsHaveTheirNames(t *testing.T) {
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{}})
	long := strings.Repeat("ö", 150) // some providers put more into an id than a name holds
	results := []tools.Result{h.do("toolu_1", "Write", `{"path": "a", "content": "1"}`), h.do(long, "Bash", `{"command": "true"}`), h.do("", "Bash", `{"command": "true"}`)}
	list, err := h.sandbox.Checkpoints(t.Context())
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, want := range []string{tools.Beginning, "toolu_1", long[:200], h.History()[3].Call} {
		if list[i].Name != want || !list[i].Automatic || list[i].ID != h.History()[i].Checkpoint || want == "" {
			t.Errorf("checkpoint %d is %+v", i, list[i])
		}
		if i > 0 && results[i-1].Checkpoint != list[i].ID {
			t.Errorf("the result of call %d has the checkpoint %s", i, results[i-1].Checkpoint)
		}
	}
	h.rewind(long)
	if h.do("r", "Read", `{"path": "a"}`).Checkpoint != "" || len(h.History()) != 5 {
		t.Error("reading made a checkpoint")
	}
}

func TestABatchHasOneCheckpointForItsCalls(t *testing.T) {
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{}})
	results, err := h.Batch(t.Context(), []tools.Call{
		{ID: "a", Name: "Write", Input: json.RawMessage(`{"path": "a", "content": "1"}`)},
		{ID: "r", Name: "Glob", Input: json.RawMessage(`{"pattern": "*"}`)},
		{ID: "b", Name: "Bash", Input: json.RawMessage(`{"command": "echo 1 > b"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.put("c", "1")
	if got := calls(h.History()); !slices.Equal(got, []string{tools.Beginning, "a", "b"}) || results[0].Checkpoint == "" || results[0].Checkpoint != results[2].Checkpoint || results[1].Checkpoint != "" {
		t.Errorf("the history is %q, the checkpoints are %q, %q and %q", got, results[0].Checkpoint, results[1].Checkpoint, results[2].Checkpoint)
	}
	for _, id := range []string{"a", "b"} {
		h.put("c", "2")
		h.rewind(id)
		h.hasFiles("rewound to "+id, map[string]string{"a": "1", "b": "1\n"})
	}
}

func TestWhatACommandInTheBackgroundDidIsKeptWhenItsOutputIsRead(t *testing.T) {
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{}, Dialect: "claude-code"})
	started := h.do("start", "Bash", `{"command": "while ! test -e go; do sleep 0.01; done; echo 1 > made", "run_in_background": true}`)
	h.put("go", "")
	h.do("end", "TaskOutput", fmt.Sprintf(`{"task_id": %q}`, uuid.FindString(started.Text())))
	h.rewind("start")
	h.hasFiles("before", map[string]string{})
	h.rewind("end")
	h.hasFiles("after", map[string]string{"go": "", "made": "1\n"})
}

func TestASessionRewindsToACallOfAnEarlierOne(t *testing.T) {
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{}})
	h.do("w", "Write", `{"path": "a", "content": "1"}`)
	text, err := json.Marshal(h.History())
	if err != nil {
		t.Fatal(err)
	}
	var history []tools.Step
	if err := json.Unmarshal(text, &history); err != nil {
		t.Fatal(err)
	}
	next := *h
	next.Session = tools.New(h.sandbox, tools.Options{Checkpoint: &tools.CheckpointOptions{History: history}}, tools.Coding()...)
	next.do("b", "Bash", `{"command": "rm a"}`)
	if got := calls(next.History()); !slices.Equal(got, []string{tools.Beginning, "w", "b"}) {
		t.Errorf("the history has %q", got)
	}
	next.rewind("w")
	next.hasFiles("rewound", map[string]string{"a": "1"})
	next.rewind(tools.Beginning)
	next.hasFiles("rewound to the beginning", map[string]string{})
}

func TestRewindSaysWhyItCannot(t *testing.T) {
	h := newHost(t, tools.Options{})
	if _, err := h.Rewind(t.Context(), "x"); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(h.Begin(t.Context()), errors.ErrUnsupported) {
		t.Errorf("without checkpoints: %v", err)
	}
	h = newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{}})
	h.do("w", "Write", `{"path": "a", "content": "1"}`)
	if _, err := h.Rewind(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unknown call: %v", err)
	}
	if err := h.sandbox.RemoveCheckpoint(t.Context(), h.History()[1].Checkpoint); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Rewind(t.Context(), "w"); !errors.Is(err, fs.ErrNotExist) || len(h.History()) != 2 {
		t.Errorf("a checkpoint that is gone: %v", err)
	}
	h.hasFiles("after all that", map[string]string{"a": "1"})
}

func TestACheckpointThatFailsIsSaidAndLeavesTheCallAsItIs(t *testing.T) {
	var said []string
	failed := func(call string, err error) { said = append(said, call+": "+err.Error()) }
	h := newHost(t, tools.Options{Checkpoint: &tools.CheckpointOptions{Exclude: []string{"["}, Failed: failed}})
	h.do("w", "Write", `{"path": "a", "content": "1"}`)
	h.do("b", "Bash", `{"command": "rm a"}`)
	if len(said) != 3 || !strings.HasPrefix(said[0], tools.Beginning+": ") || !strings.HasPrefix(said[2], "b: ") || len(h.History()) > 0 {
		t.Errorf("it says %q, and the history is %+v", said, h.History())
	}
	if _, err := h.Rewind(t.Context(), "w"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, syscall.EINVAL) {
		t.Errorf("rewinding to such a call: %v", err)
	}
}

// withoutPlace returns a sandbox whose agent keeps no checkpoints.
func withoutPlace(t *testing.T) *launcher.Sandbox {
	t.Helper()
	l := launchertest.Local(t)
	agent := filepath.Join(t.TempDir(), "podagent")
	script := "#!/bin/sh\nunset PODAGENT_CHECKPOINTS\nfor a; do shift; case $a in --checkpoints=*) ;; *) set -- \"$@\" \"$a\" ;; esac; done\nexec " + l.Agent + " \"$@\"\n"
	if err := os.WriteFile(agent, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	l.Agent = agent
	s, err := l.Launch(t.Context(), launcher.Spec{ID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestASandboxWithoutCheckpointsSaysSoOnce(t *testing.T) {
	var said atomic.Int32
	s := tools.New(withoutPlace(t), tools.Options{Checkpoint: &tools.CheckpointOptions{Failed: func(_ string, err error) {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		said.Add(1)
	}}}, tools.Coding()...)
	for range 3 {
		if result, err := s.Call(t.Context(), "Write", json.RawMessage(`{"path": "a", "content": "1"}`)); err != nil || result.IsError {
			t.Fatal(result.Text(), err)
		}
	}
	if err := s.Begin(t.Context()); !errors.Is(err, errors.ErrUnsupported) || said.Load() != 1 {
		t.Errorf("it was said %d times, and at last %v", said.Load(), err)
	}
	if _, err := s.Rewind(t.Context(), "x"); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("rewinding: %v", err)
	}
}
