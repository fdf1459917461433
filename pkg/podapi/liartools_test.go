//go:build !race

package podapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/podapi"
	pb "github.com/podagent/podagent/pkg/podapi/podapiv1"
	"github.com/podagent/podagent/pkg/tools"
)

// toolCalls are calls of tools by models, by the RPC that they make.
var toolCalls = map[string][]tools.Call{
	"Files/Read": {
		{Name: "Read", Input: json.RawMessage(`{"path": "f"}`)},
		{Name: "Read", Input: json.RawMessage(`{"path": "f.png"}`)},
	},
	"Files/Edit": {{Name: "Edit", Input: json.RawMessage(`{"path": "f", "old_text": "a", "new_text": "b"}`)}},
	"Files/Glob": {{Name: "Glob", Input: json.RawMessage(`{"pattern": "**"}`)}},
	"Files/Grep": {{Name: "Grep", Input: json.RawMessage(`{"pattern": "x"}`)}},
	"Processes/Exec": {
		{Name: "Bash", Input: json.RawMessage(`{"command": "true", "timeout": 1}`), ExecID: liarExecID},
	},
}

// toolLies are the lies that end a tool's call at once.
func toolLies() map[string]answer {
	image := &pb.ReadResponse{Kind: &pb.ReadResponse_Data{Data: []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("x", 1<<20))}}
	all := map[string]answer{
		"Files/Read: endless image":     endless(header(1<<40), image),
		"Files/Read: image that is cut": once(first, image),
	}
	for name, lie := range lies {
		if strings.HasPrefix(name, "Files/") || strings.HasPrefix(name, "Processes/Exec:") && !errors.Is(lie.want, podapi.ErrCut) {
			all[name] = lie.answer
		}
	}
	for seed := range uint64(100) {
		method := []string{"Files/Read", "Files/Edit", "Files/Glob", "Files/Grep"}[seed%4]
		all[fmt.Sprint(method, ": random ", seed)] = randomAnswer(seed, method)
	}
	return all
}

// longToolLies are those after which a tool hopes for a better answer. They are for
// PODAGENT_TEST_FULL: a command waits for its agent until two minutes after its timeout.
func longToolLies() map[string]answer {
	all := silences()
	for name, lie := range lies {
		if strings.HasPrefix(name, "Processes/Exec:") && errors.Is(lie.want, podapi.ErrCut) {
			all[name] = lie.answer
		}
	}
	for seed := range uint64(100) {
		all[fmt.Sprint("Processes/Exec: random ", seed)] = randomAnswer(seed, "Processes/Exec")
	}
	return all
}

// silences are answers that never say how a command ended.
func silences() map[string]answer {
	return map[string]answer{
		"Processes/Exec: never ends":          thenHang(started()),
		"Processes/Exec: never answers":       thenHang(),
		"Processes/Exec: goes on with output": endlessOutput,
	}
}

func TestToolsSurviveALyingAgent(t *testing.T) {
	lieToTools(t, toolLies(), lieTimeout)
	if os.Getenv("PODAGENT_TEST_FULL") != "" {
		lieToTools(t, longToolLies(), podapi.DefaultResumeTimeout+lieTimeout)
	}
}

// lieToTools makes all calls that get these lies, at once. Each has to end by itself.
func lieToTools(t *testing.T, told map[string]answer, patience time.Duration) {
	t.Helper()
	l := newLiar(t, func(name string) answer { return told[name] })
	var all sync.WaitGroup
	for name := range told {
		for _, call := range toolCalls[methodOf(name)] {
			c := liarClient(t, l.socket)
			all.Go(func() {
				ctx, cancel := context.WithTimeout(asLie(t.Context(), name), patience)
				defer cancel()
				result, err := useTool(ctx, c, call)
				if ctx.Err() != nil {
					t.Errorf("%s of %s did not end by itself", call.Name, name)
				}
				checkTold(t, call.Name+" of "+name, result, err)
			})
		}
	}
	all.Wait()
}

func useTool(ctx context.Context, c *podapi.Client, call tools.Call) (tools.Result, error) {
	sandbox := &launcher.Sandbox{Client: c, ID: "a", Workdir: "/w"}
	return tools.New(sandbox, tools.Options{}, tools.Coding()...).Do(ctx, call)
}

// checkTold checks that a tool did not panic, and returns no more than a model may get.
func checkTold(t *testing.T, what string, result tools.Result, err error) {
	t.Helper()
	if of, ok := errors.AsType[*tools.PanicError](err); ok {
		t.Errorf("%s: %v\n%s", what, err, of.Stack)
	}
	for _, c := range result.Content {
		if len(c.Text) > 2*tools.MaxText || len(c.Data) > tools.MaxImage {
			t.Errorf("%s returns %d bytes of text and %d of an image", what, len(c.Text), len(c.Data))
		}
	}
}

// A host need not wait for the timeout of a command either.
func TestHostLeavesAToolThatALyingAgentHoldsUp(t *testing.T) {
	for name, silence := range silences() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(asLie(t.Context(), name))
			l := newLiar(t, func(string) answer {
				return func(ctx context.Context, send func([]byte) error) error {
					leave() // the call has begun
					return silence(ctx, send)
				}
			})
			begin := time.Now()
			result, err := useTool(ctx, liarClient(t, l.socket), toolCalls["Processes/Exec"][0])
			if !errors.Is(err, context.Canceled) || time.Since(begin) > hung {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
			checkTold(t, name, result, err)
		})
	}
}
