package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// tool returns a tool without parameters.
func tool(name string, call func(context.Context, *tools.Env) (tools.Result, error)) tools.Tool {
	return tools.Func(tools.Spec{Name: name}, func(ctx context.Context, env *tools.Env, _ struct{}) (tools.Result, error) {
		return call(ctx, env)
	})
}

func TestPanicOfAToolIsAnErrorOfItsCallAlone(t *testing.T) {
	panics := tool("panics", func(_ context.Context, env *tools.Env) (tools.Result, error) {
		panic("it was " + env.Secrets.Env()[0])
	})
	exits := tool("exits", func(context.Context, *tools.Env) (tools.Result, error) {
		runtime.Goexit()
		return tools.Result{}, nil
	})
	opts := tools.Options{Secrets: map[string]secret.Provider{"TOKEN": secret.Static(token)}}
	h := newHost(t, opts, append(tools.Coding(), panics, exits)...)
	results, err := h.Batch(t.Context(), []tools.Call{{Name: "panics"}, {Name: "exits"}, {Name: "Bash", Input: json.RawMessage(`{"command": "echo fine"}`)}})
	for _, want := range []string{"call 1, panics: tool panics panicked: it was TOKEN=[REDACTED:TOKEN]", "call 2, exits: tool exits ended its goroutine"} {
		has(t, fmt.Sprint(err), want)
	}
	has(t, results[0].Text(), "panics did not run to its end: tool panics panicked")
	if got := results[2].Text(); got != "fine\n" {
		t.Errorf("the other call: %s", got)
	}
}

func TestPanicErrorSaysWhere(t *testing.T) {
	h := newHost(t, tools.Options{}, tool("panics", func(context.Context, *tools.Env) (tools.Result, error) {
		var none []tools.Result
		return none[len(none)], nil
	}))
	_, err := h.Call(t.Context(), "panics", nil)
	var of *tools.PanicError
	if !errors.As(err, &of) || of.Tool != "panics" || !strings.Contains(string(of.Stack), "TestPanicErrorSaysWhere") {
		t.Errorf("got %v, %+v", err, of)
	}
}

func TestToolThatIgnoresItsContextIsLeftBehind(t *testing.T) {
	t.Parallel() // it takes AbandonAfter
	ctx, cancel := context.WithCancel(t.Context())
	release, ended := make(chan struct{}), make(chan struct{})
	h := newHost(t, tools.Options{}, tool("deaf", func(_ context.Context, env *tools.Env) (tools.Result, error) {
		defer close(ended)
		fmt.Fprint(env.Output, "before")
		cancel()
		<-release
		fmt.Fprint(env.Output, "after")
		return tools.Result{State: map[string]any{"key": "late"}}, nil
	}))
	var live bytes.Buffer
	begin := time.Now()
	_, err := h.Do(ctx, tools.Call{Name: "deaf", Output: &live})
	if !errors.Is(err, context.Canceled) || time.Since(begin) > hung {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	close(release)
	<-ended
	if _, late := h.State().Get("key"); late || live.String() != "before" {
		t.Errorf("what came late is there: %v, %q", late, &live)
	}
}

func TestOutputMayBeUsedConcurrentlyAndItsErrorsAreIgnored(t *testing.T) {
	many := tool("many", func(_ context.Context, env *tools.Env) (tools.Result, error) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 100 {
					if _, err := fmt.Fprintln(env.Output, "line"); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		return tools.Text("done"), nil
	})
	h := newHost(t, tools.Options{}, many)
	var live bytes.Buffer
	for _, to := range []interface{ Write([]byte) (int, error) }{&live, broken{}} {
		if _, err := h.Do(t.Context(), tools.Call{Name: "many", Output: to}); err != nil {
			t.Error(err)
		}
	}
	if got := live.String(); got != strings.Repeat("line\n", 800) {
		t.Errorf("%d bytes came", len(got))
	}
}

// broken is a writer that fails.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestSessionsInOneSandboxRunConcurrently(t *testing.T) {
	s := launchertest.Sandbox(t)
	temp := t.TempDir()
	var all sync.WaitGroup
	for i := range 4 {
		session := tools.New(s, tools.Options{TempDir: temp, Secrets: map[string]secret.Provider{"OWN": secret.Static(fmt.Sprint("of session ", i))}}, tools.Coding()...)
		all.Go(func() {
			var calls []tools.Call
			for range 12 {
				calls = append(calls,
					tools.Call{Name: "Bash", Input: json.RawMessage(`{"command": "echo $OWN; seq 1 3000"}`)},
					tools.Call{Name: "Write", Input: json.RawMessage(fmt.Sprintf(`{"path": "file-%d", "content": "x"}`, i))},
					tools.Call{Name: "Read", Input: json.RawMessage(`{"path": "none"}`)})
			}
			results, err := session.Batch(t.Context(), calls)
			if err != nil {
				t.Error(err)
			}
			for j, r := range results {
				if wrong := j%3 == 2; r.IsError != wrong {
					t.Errorf("call %d: %s", j, brief(r.Text()))
				}
			}
			has(t, results[0].Text(), "[REDACTED:OWN]\n1\n2\n", "3000\n")
			if err := session.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
