package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// BenchmarkToolCallOverOperation compares calls of tools with the operations that
// they are: their own cost is to stay under 1 ms.
func BenchmarkToolCallOverOperation(b *testing.B) {
	_, s, _ := benchPod(b)
	ctx := b.Context()
	session := tools.New(s, tools.Options{Secrets: map[string]secret.Provider{"TOKEN": secret.Static("a-token-of-32-bytes-0123456789ab")}}, tools.Coding()...)
	source := []byte(strings.Repeat("a line of some source code, as it may be\n", 500))
	for _, name := range []string{"file", "edited", "dir/a.go", "dir/b.go"} {
		writeIn(b, s, name, string(source))
	}
	for _, c := range toolOperations(ctx, s, source) {
		b.Run(c.tool, func(b *testing.B) {
			medians := compare(b, 300,
				side{name: "tool", do: func() error {
					result, err := session.Call(ctx, c.tool, json.RawMessage(c.input))
					if err == nil && result.IsError {
						err = fmt.Errorf("%s", result.Text())
					}
					return err
				}},
				side{name: "operation", do: c.operation},
			)
			b.ReportMetric(medians[0]-medians[1], "own-ms")
		})
	}
}

// toolOperation is a call of a tool, and the operation that it is.
type toolOperation struct {
	tool, input string
	operation   func() error
}

func toolOperations(ctx context.Context, s *launcher.Sandbox, source []byte) []toolOperation {
	content, _ := json.Marshal(string(source)) // a text
	return []toolOperation{
		{"Read", `{"path": "file"}`, func() error {
			_, err := s.ReadLines(ctx, "file", fsops.LineOptions{First: 1, Max: tools.MaxLines, MaxBytes: tools.MaxText})
			return err
		}},
		{"Write", `{"path": "written", "content": ` + string(content) + `}`, func() error {
			_, err := s.WriteFile(ctx, "written", source, fsops.WriteOptions{Parents: true})
			return err
		}},
		{"Edit", `{"path": "edited", "old_text": "some", "new_text": "other", "replace_all": true}`, func() error {
			_, err := s.Edit(ctx, "edited", []fsops.Edit{{Old: []byte("other"), New: []byte("some"), All: true}}, fsops.EditOptions{})
			return err
		}},
		{"Bash", `{"command": "cat file"}`, func() error { return catFile(ctx, s) }},
		{"Glob", `{"pattern": "**/*.go"}`, func() error {
			for _, err := range s.Glob(ctx, "**/*.go", fsops.GlobOptions{Limit: 1000, Ignore: true, Sort: fsops.GlobByName}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"Grep", `{"pattern": "source", "path": "dir"}`, func() error {
			for _, err := range s.Grep(ctx, "source", fsops.GrepOptions{Paths: []string{"dir"}, Limit: tools.DefaultGrepLimit, Hidden: true, Sort: true}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

// catFile runs what the tool's command does, and takes its output.
func catFile(ctx context.Context, s *launcher.Sandbox) error {
	cmd := s.Shell(ctx, "cat file")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd.Run()
}

func writeIn(b *testing.B, s *launcher.Sandbox, name, content string) {
	b.Helper()
	if _, err := s.WriteFile(b.Context(), name, []byte(content), fsops.WriteOptions{Parents: true}); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkInstructionsOfTwentySkills is to take under 20 ms, and about as long as
// the one call that takes longest of those that it makes at once.
func BenchmarkInstructionsOfTwentySkills(b *testing.B) {
	_, s, _ := benchPod(b)
	writeIn(b, s, "AGENTS.md", strings.Repeat("an instruction\n", 200))
	writeIn(b, s, "CLAUDE.md", "another\n")
	for i := range 20 {
		writeIn(b, s, fmt.Sprintf(".agents/skills/skill-%d/SKILL.md", i), "---\nname: a skill\ndescription: what it is for\n---\n"+strings.Repeat("how to do it\n", 300))
	}
	compare(b, 100,
		side{name: "instructions", do: func() error {
			p, err := tools.Instructions(b.Context(), s, "")
			if err == nil && (len(p.Skills) != 20 || p.Skills[19].Description == "" || p.Instructions == "") {
				err = fmt.Errorf("got %+v", p)
			}
			return err
		}},
		side{name: "stat", do: func() error {
			_, err := s.Stat(b.Context(), ".")
			return err
		}},
	)
}
