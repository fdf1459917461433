package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// BenchmarkTools measures calls of tools in a pod, compared with the underlying
// operations. A tool should add less than 1 ms.
func BenchmarkTools(b *testing.B) {
	p := launch(b)
	b.Run("calls", func(b *testing.B) { benchmarkToolCalls(b, p) })
	b.Run("instructions", func(b *testing.B) { benchmarkInstructions(b, p) })
}

func benchmarkToolCalls(b *testing.B, p *pod) {
	session := tools.New(p.Sandbox, tools.Options{Secrets: map[string]secret.Provider{"TOKEN": secret.Static("a-token-of-32-bytes-0123456789ab")}}, tools.Coding()...)
	source := []byte(strings.Repeat("a line of some source code, as it may be\n", 500))
	for _, name := range []string{"file", "edited", "dir/a.go", "dir/b.go"} {
		p.writeText(b, name, string(source))
	}
	restore := p.write(b, "edited", source)
	for _, c := range toolOperations(b.Context(), p.Sandbox, source) {
		r := compare(b, "tools", "the tool "+c.tool, 200,
			side{name: "podagent", after: restore, do: func() error {
				result, err := session.Call(b.Context(), c.tool, json.RawMessage(c.input))
				if err == nil && (result.IsError || result.Text() == "") {
					err = fmt.Errorf("it said %q", result.Text())
				}
				return err
			}},
			side{name: "its operation", after: restore, do: c.operation},
		)
		r.limit("its operation + 1 ms", r.median("its operation")+1)
	}
}

// toolOperation is a call of a tool and its underlying operation.
type toolOperation struct {
	tool, input string
	operation   func() error
}

func toolOperations(ctx context.Context, s *launcher.Sandbox, source []byte) []toolOperation {
	content, _ := json.Marshal(string(source)) // a string is always valid
	return []toolOperation{
		{"Read", `{"path": "file"}`, func() error {
			_, err := s.ReadLines(ctx, "file", fsops.LineOptions{First: 1, Max: tools.MaxLines, MaxBytes: tools.MaxText})
			return err
		}},
		{"Write", `{"path": "written", "content": ` + string(content) + `}`, func() error {
			_, err := s.Write(ctx, "written", bytes.NewReader(source), fsops.WriteOptions{Parents: true})
			return err
		}},
		{"Edit", `{"path": "edited", "old_text": "some", "new_text": "other", "replace_all": true}`, func() error {
			_, err := s.Edit(ctx, "edited", []fsops.Edit{{Old: []byte("some"), New: []byte("other"), All: true}}, fsops.EditOptions{})
			return err
		}},
		{"Bash", `{"command": "cat file"}`, func() error { return catFile(ctx, s) }},
		{"Glob", `{"pattern": "**/*.go"}`, func() error {
			return some(s.Glob(ctx, "**/*.go", fsops.GlobOptions{Limit: 1000, Ignore: true, Sort: fsops.GlobByName}))
		}},
		{"Grep", `{"pattern": "source", "path": "dir"}`, func() error {
			return some(s.Grep(ctx, "source", fsops.GrepOptions{Paths: []string{"dir"}, Limit: tools.DefaultGrepLimit, Hidden: true, Sort: true}))
		}},
	}
}

// some takes all results. There must be at least one.
func some[T any](results iter.Seq2[T, error]) error {
	n := 0
	for _, err := range results {
		if err != nil {
			return err
		}
		n++
	}
	if n == 0 {
		return errors.New("nothing was found")
	}
	return nil
}

// catFile runs the command of the Bash call and takes its output.
func catFile(ctx context.Context, s *launcher.Sandbox) error {
	cmd := s.Shell(ctx, "cat file")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd.Run()
}

func (p *pod) writeText(b *testing.B, name, content string) {
	b.Helper()
	if _, err := p.Write(b.Context(), name, strings.NewReader(content), fsops.WriteOptions{Parents: true}); err != nil {
		b.Fatal(err)
	}
}

// benchmarkInstructions should take less than 20 ms, and about as long as the
// slowest of the calls that it makes in parallel.
func benchmarkInstructions(b *testing.B, p *pod) {
	p.writeText(b, "AGENTS.md", strings.Repeat("an instruction\n", 200))
	p.writeText(b, "CLAUDE.md", "another\n")
	for i := range 20 {
		p.writeText(b, fmt.Sprintf(".agents/skills/skill-%d/SKILL.md", i), "---\nname: a skill\ndescription: what it is for\n---\n"+strings.Repeat("how to do it\n", 300))
	}
	compare(b, "tools", "instructions with 20 skills", 100,
		side{name: "podagent", do: func() error {
			i, err := tools.Instructions(b.Context(), p.Sandbox, "")
			if err == nil && (len(i.Skills) != 20 || i.Skills[19].Description == "" || i.Instructions == "") {
				err = fmt.Errorf("got %+v", i)
			}
			return err
		}},
		side{name: "stat", do: p.stat(b)},
	).limit("limit", 20)
}
