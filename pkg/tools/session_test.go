package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	"github.com/podagent/podagent/pkg/tools"
)

func TestSetsOfTools(t *testing.T) {
	names := func(all []tools.Tool) string {
		var names []string
		for _, s := range tools.New(nil, tools.Options{}, all...).Specs() {
			names = append(names, s.Name)
		}
		return strings.Join(names, " ")
	}
	if got := names(tools.Coding()); got != "Read Bash BashOutput BashKill Edit Write Glob Grep" {
		t.Errorf("Coding has %s", got)
	}
	if got := names(tools.ReadOnly()); got != "Read Bash BashOutput BashKill Glob Grep" {
		t.Errorf("ReadOnly has %s", got)
	}
}

// every returns all tools, with one of each way to have one of one's own.
func every() []tools.Tool {
	return append(append(tools.Coding(), tools.Checkpointing()...), tools.Command{Path: "gh"}, weather())
}

func weather() tools.Tool {
	return tools.Func(tools.Spec{Name: "weather", Description: "Tells the weather."},
		func(_ context.Context, _ *tools.Env, in struct {
			City string `json:"city" jsonschema:"the city's name"`
			Days int    `json:"days,omitempty"`
		},
		) (tools.Result, error) {
			return tools.Text(fmt.Sprint("22 °C in ", in.City, " for ", in.Days)), nil
		})
}

func TestSchemasAreJSONSchemasAndGolden(t *testing.T) {
	var all strings.Builder
	for _, spec := range tools.New(nil, tools.Options{}, every()...).Specs() {
		var schema jsonschema.Schema
		if err := json.Unmarshal(spec.InputSchema, &schema); err != nil {
			t.Fatalf("%s: %v", spec.Name, err)
		}
		if _, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true}); err != nil {
			t.Errorf("%s: %v", spec.Name, err)
		}
		for name, p := range schema.Properties {
			if p.Description == "" && spec.Name != "weather" {
				t.Errorf("%s: %s has no description", spec.Name, name)
			}
		}
		var indented bytes.Buffer
		if err := json.Indent(&indented, spec.InputSchema, "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "# %s\n%s\nread-only %v, destructive %v, idempotent %v, open world %v\n%s\n\n",
			spec.Name, spec.Description, spec.ReadOnly, spec.Destructive, spec.Idempotent, spec.OpenWorld, &indented)
	}
	compareGolden(t, "specs", all.String())
}

func TestOwnTools(t *testing.T) {
	lines := tools.Func(tools.Spec{Name: "line_count", InputSchema: json.RawMessage(`{"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}`)},
		func(ctx context.Context, env *tools.Env, in struct{ Path string }) (tools.Result, error) {
			content, err := env.Sandbox.ReadFile(ctx, env.Path(in.Path))
			if err != nil {
				return tools.Errorf("cannot read %s: %v", in.Path, err), nil
			}
			return tools.JSON(map[string]int{"lines": strings.Count(string(content), "\n")})
		})
	h := newHost(t, tools.Options{}, lines, weather())
	h.put("file", "1\n2\n")
	if got := h.text("line_count", `{"path": "file"}`); got != `{"lines":2}` {
		t.Errorf("got %s", got)
	}
	if got := h.text("weather", `{"city": "Berlin", "days": "3"}`); got != "22 °C in Berlin for 3" {
		t.Errorf("got %s", got)
	}
	has(t, h.refused("weather", `{}`), `the parameter "city" of weather is missing; it takes city, days (optional)`)
	has(t, h.refused("weather", `{"town": "Berlin"}`), `weather has no parameter "town"`)
	has(t, h.refused("Weather", `{}`), `there is no tool "Weather"; the tools are line_count, weather`)
}

func TestNestedInputsAreCheckedBySchema(t *testing.T) {
	type place struct {
		Lat float64 `json:"lat"`
	}
	nested := tools.Func(tools.Spec{Name: "nested"}, func(_ context.Context, _ *tools.Env, in struct {
		At place `json:"at"`
	},
	) (tools.Result, error) {
		return tools.Text(fmt.Sprint(in.At.Lat)), nil
	})
	h := newHost(t, tools.Options{}, nested)
	if got := h.text("nested", `{"at": {"lat": 1.5}}`); got != "1.5" {
		t.Errorf("got %s", got)
	}
	has(t, h.refused("nested", `{"at": {"lon": 1}}`), "the input of nested does not fit its schema")
}

func TestWrongToolsAreAnErrorOfEveryCall(t *testing.T) {
	for want, all := range map[string][]tools.Tool{
		`two tools with the name "Read"`:                           {tools.Read{}, tools.Read{}},
		`"a b" is not a valid tool name`:                           {tools.Command{Name: "a b", Path: "x"}},
		`a Command has no Path`:                                    {tools.Command{Name: "x"}},
		`one of the tools is nil`:                                  {tools.Read{}, nil},
		`entry 2 of the Env of a Command for gh is not NAME=VALUE`: {tools.Command{Path: "gh", Env: []string{"A=", "hunter22"}}},
		`tool "x": there is no function`:                           {tools.Func[struct{}](tools.Spec{Name: "x"}, nil)},
		`cannot make a schema`:                                     {tools.Func(tools.Spec{Name: "x"}, func(context.Context, *tools.Env, chan int) (tools.Result, error) { return tools.Result{}, nil })},
		`its type is not "object"`:                                 {tools.Func(tools.Spec{Name: "x", InputSchema: json.RawMessage(`{"type": "string"}`)}, func(context.Context, *tools.Env, string) (tools.Result, error) { return tools.Result{}, nil })},
	} {
		s := tools.New(nil, tools.Options{}, all...)
		_, err := s.Call(t.Context(), "Read", nil)
		if err == nil || !strings.Contains(err.Error(), want) || s.Prepare(t.Context()) == nil {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// setting returns a tool that says what the state has for "key", and sets it.
func setting(waits *atomic.Int32, together int32) tools.Tool {
	return tools.Func(tools.Spec{Name: "set"}, func(ctx context.Context, env *tools.Env, in struct {
		Value string `json:"value"`
	},
	) (tools.Result, error) {
		for waits.Add(1); waits.Load() < together && ctx.Err() == nil; {
		}
		had, _ := env.State.Get("key")
		result := tools.Text(fmt.Sprint(had))
		result.State = map[string]any{"key": in.Value, "only " + in.Value: true}
		return result, nil
	})
}

func TestBatchRunsTogetherAndSharesTheStateOfItsBegin(t *testing.T) {
	var waits atomic.Int32
	h := newHost(t, tools.Options{State: map[string]any{"key": "seed", "tenant": "acme"}}, setting(&waits, 3))
	calls := []tools.Call{{Name: "set", Input: json.RawMessage(`{"value": "a"}`)}, {Name: "set", Input: json.RawMessage(`{"value": "b"}`)}, {Name: "set", Input: json.RawMessage(`{"value": "c"}`)}}
	results, err := h.Batch(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Text() != "seed" {
			t.Errorf("call %d saw %s", i, r.Text())
		}
	}
	got := map[string]any{}
	for key, value := range h.State().All() {
		got[key] = value
	}
	want := map[string]any{"key": "c", "tenant": "acme", "only a": true, "only b": true, "only c": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the state (-want +got):\n%s", diff)
	}
	if got := h.text("set", `{"value": "d"}`); got != "c" {
		t.Errorf("the next turn sees %s", got)
	}
}

func TestBatchHasAResultForEachCallAlsoWithErrors(t *testing.T) {
	broken := tools.Func(tools.Spec{Name: "broken"}, func(context.Context, *tools.Env, struct{}) (tools.Result, error) {
		return tools.Result{}, podapi.ErrUnavailable
	})
	h := newHost(t, tools.Options{}, append(tools.Coding(), broken)...)
	h.put("file", "content\n")
	results, err := h.Batch(t.Context(), []tools.Call{
		{Name: "Read", Input: json.RawMessage(`{"path": "file"}`)}, {Name: "broken"}, {Name: "Read", Input: json.RawMessage(`{"path": "missing"}`)},
	})
	if !errors.Is(err, podapi.ErrUnavailable) || len(results) != 3 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	has(t, results[0].Text(), "content")
	has(t, results[1].Text(), "broken did not run to its end: agent unavailable")
	if !results[1].IsError || !results[2].IsError {
		t.Error("they are no errors")
	}
}

func TestALostSandboxIsAnErrorAndNoResult(t *testing.T) {
	absent, err := launcher.Lazy(&launcher.Local{Agent: "/nonexistent/podagent", StateDir: t.TempDir()}, launcher.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer absent.Close()
	s := tools.New(absent, tools.Options{}, tools.Coding()...)
	for name, input := range map[string]string{
		"Read": `{"path": "a"}`, "Write": `{"path": "a", "content": ""}`, "Edit": `{"path": "a", "old_text": "a", "new_text": "b"}`,
		"Bash": `{"command": "true"}`, "Glob": `{"pattern": "*"}`, "Grep": `{"pattern": "x"}`, "BashOutput": `{"id": "x"}`, "BashKill": `{"id": "x"}`,
	} {
		if result, err := s.Call(t.Context(), name, json.RawMessage(input)); err == nil {
			t.Errorf("%s: %s", name, result.Text())
		}
	}
	if _, err := s.Instructions(t.Context()); err == nil {
		t.Error("Instructions has no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newHost(t, tools.Options{}).Call(ctx, "Read", json.RawMessage(`{"path": "a"}`)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestWorkdirIsWhereToolsStart(t *testing.T) {
	h := newHost(t, tools.Options{Workdir: "sub"})
	h.put("sub/file.txt", "here\n")
	h.put("file.txt", "there\n")
	has(t, h.text("Read", `{"path": "file.txt"}`), "here")
	has(t, h.text("Bash", `{"command": "cat file.txt"}`), "here")
	has(t, h.text("Grep", `{"pattern": "here"}`), "file.txt:1: here")
	if got := h.text("Glob", `{"pattern": "*"}`); got != "file.txt" {
		t.Errorf("Glob: %s", got)
	}
	has(t, h.refused("Read", `{"path": "fiel.txt"}`), "file.txt")
}

func TestLiveOutput(t *testing.T) {
	h := newHost(t, tools.Options{})
	var live bytes.Buffer
	result, err := h.Do(t.Context(), tools.Call{Name: "Bash", Input: json.RawMessage(`{"command": "echo one; echo two"}`), Output: &live})
	if err != nil || live.String() != "one\ntwo\n" || result.Text() != "one\ntwo\n" {
		t.Errorf("%q, %q, %v", live.String(), result.Text(), err)
	}
}
