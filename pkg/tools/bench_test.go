package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podagent/podagent/pkg/fsops"
	"github.com/podagent/podagent/pkg/launcher"
	"github.com/podagent/podagent/pkg/launcher/launchertest"
	"github.com/podagent/podagent/pkg/tools"
	"github.com/podagent/podagent/pkg/tools/secret"
)

// BenchmarkToolCallOverhead measures what a tool's call costs beyond the
// operation that it is: both take turns, and the metric is the difference of
// their medians in microseconds.
func BenchmarkToolCallOverhead(b *testing.B) {
	s := launchertest.Sandbox(b)
	session := tools.New(s, tools.Options{Secrets: map[string]secret.Provider{"TOKEN": secret.Static("a-token-of-32-bytes-0123456789ab")}}, tools.Coding()...)
	text := []byte(strings.Repeat("a line of some source code, as it may be\n", 500))
	for _, name := range []string{"file", "dir/a.go", "dir/b.go"} {
		if _, err := s.WriteFile(b.Context(), name, text, fsops.WriteOptions{Parents: true}); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range overheadCases(b.Context(), s, text) {
		b.Run(c.tool, func(b *testing.B) {
			var raw, tool []time.Duration
			for b.Loop() {
				raw = append(raw, timed(b, c.raw))
				tool = append(tool, timed(b, func() error {
					_, err := session.Call(b.Context(), c.tool, json.RawMessage(c.input))
					return err
				}))
			}
			b.ReportMetric(micros(median(raw)), "raw-µs")
			b.ReportMetric(micros(median(tool)), "tool-µs")
			b.ReportMetric(micros(median(tool)-median(raw)), "own-µs")
			b.ReportMetric(0, "ns/op") // of both together, which says nothing
		})
	}
}

// overheadCase is a call of a tool, and the operation that it is.
type overheadCase struct {
	tool, input string
	raw         func() error
}

func overheadCases(ctx context.Context, s *launcher.Sandbox, text []byte) []overheadCase {
	content, _ := json.Marshal(string(text))
	return []overheadCase{
		{"Read", `{"path": "file"}`, func() error {
			_, err := s.ReadLines(ctx, "file", fsops.LineOptions{First: 1, Max: tools.MaxLines, MaxBytes: tools.MaxText})
			return err
		}},
		{"Write", `{"path": "written", "content": ` + string(content) + `}`, func() error {
			_, err := s.WriteFile(ctx, "written", text, fsops.WriteOptions{Parents: true})
			return err
		}},
		{"Bash", `{"command": "cat file"}`, func() error {
			cmd := s.Shell(ctx, "cat file")
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			return cmd.Run()
		}},
		{"Glob", `{"pattern": "**/*.go"}`, func() error {
			for _, err := range s.Glob(ctx, "**/*.go", fsops.GlobOptions{Limit: 1000, Ignore: true, Sort: fsops.GlobByName}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
		{"Grep", `{"pattern": "source", "path": "dir"}`, func() error {
			for _, err := range s.Grep(ctx, "source", fsops.GrepOptions{Paths: []string{"dir"}, Limit: 200, Hidden: true, Sort: true}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	}
}

func timed(b *testing.B, do func() error) time.Duration {
	begin := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// BenchmarkInstructions reads those of a project with 20 skills.
func BenchmarkInstructions(b *testing.B) {
	s := launchertest.Sandbox(b)
	put := func(name, content string) {
		if _, err := s.WriteFile(b.Context(), name, []byte(content), fsops.WriteOptions{Parents: true}); err != nil {
			b.Fatal(err)
		}
	}
	put("AGENTS.md", strings.Repeat("an instruction\n", 200))
	put("CLAUDE.md", "another\n")
	for i := range 20 {
		put(fmt.Sprintf(".agents/skills/skill-%d/SKILL.md", i), "---\nname: a skill\ndescription: what it is for\n---\n"+strings.Repeat("how to do it\n", 300))
	}
	var all []time.Duration
	for b.Loop() {
		all = append(all, timed(b, func() error {
			p, err := tools.Instructions(b.Context(), s, "")
			if err == nil && (len(p.Skills) != 20 || p.Skills[19].Description == "") {
				err = fmt.Errorf("got %+v", p)
			}
			return err
		}))
	}
	b.ReportMetric(micros(median(all)), "median-µs")
}
