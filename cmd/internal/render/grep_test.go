package render

import (
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
)

func grepResults(results ...fsops.GrepResult) (outcomes []outcome[fsops.GrepResult]) {
	for _, r := range results {
		outcomes = append(outcomes, outcome[fsops.GrepResult]{result: r})
	}
	return outcomes
}

func TestGrepPrintsLines(t *testing.T) {
	match := func(path string, line int64, text string, spans ...fsops.Span) fsops.GrepResult {
		return fsops.GrepResult{Kind: fsops.GrepMatch, Path: path, Line: line, Offset: 10 * line, Text: []byte(text), Spans: spans}
	}
	context := func(path string, line int64, text string) fsops.GrepResult {
		return fsops.GrepResult{Kind: fsops.GrepContext, Path: path, Line: line, Offset: 10 * line, Text: []byte(text)}
	}
	several := match("a", 3, "one\ntwo", fsops.Span{Start: 1, End: 5}, fsops.Span{Start: 6, End: 7})
	cut := match("a", 9, "xy")
	cut.Cut = 5
	for _, tt := range []struct {
		name    string
		grep    Grep
		results []fsops.GrepResult
		want    string
	}{
		{"plain", Grep{}, []fsops.GrepResult{match("a", 1, "x\r"), match("b", 7, "y"), cut}, "a:1:x\r\nb:7:y\na:9:xy [... 5 more bytes]\n"},
		{"context", Grep{Context: true}, []fsops.GrepResult{context("a", 1, "x"), match("a", 2, "y"), match("a", 4, "z"), match("b", 5, "z")}, "a-1-x\na:2:y\n--\na:4:z\n--\nb:5:z\n"},
		{"heading", Grep{Heading: true, Context: true}, []fsops.GrepResult{context("a", 1, "x"), match("a", 2, "y"), match("a", 4, "z"), match("b", 5, "z")}, "a\n1-x\n2:y\n--\n4:z\n\nb\n5:z\n"},
		{"columns and offsets", Grep{Column: true, Offset: true, NoNumbers: true}, []fsops.GrepResult{match("a", 1, "xyz", fsops.Span{Start: 2, End: 3})}, "a:3:10:xyz\n"},
		{"several lines", Grep{Column: true, Offset: true}, []fsops.GrepResult{several, context("a", 5, "x")}, "a:3:2:30:one\na:4:1:34:two\na-5-50-x\n"},
		{"colors", Grep{Color: true}, []fsops.GrepResult{several}, "\x1b[35ma\x1b[0m:\x1b[32m3\x1b[0m:o\x1b[1;31mne\x1b[0m\n" +
			"\x1b[35ma\x1b[0m:\x1b[32m4\x1b[0m:\x1b[1;31mt\x1b[0mw\x1b[1;31mo\x1b[0m\n"},
		{"no match to paint", Grep{Color: true}, []fsops.GrepResult{match("", 1, "", fsops.Span{})}, "\x1b[35m\x1b[0m:\x1b[32m1\x1b[0m:\n"},
		{"files", Grep{}, []fsops.GrepResult{{Kind: fsops.GrepFile, Path: "a"}}, "a\n"},
		{"counts", Grep{Counts: true}, []fsops.GrepResult{{Kind: fsops.GrepFile, Path: "a", Count: 2}}, "a:2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			tt.grep.Out, tt.grep.Err = &out, io.Discard
			if err := tt.grep.All(sequence(grepResults(tt.results...)...)); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestGrepSaysWhatWasSkipped(t *testing.T) {
	pathError := func(path string, err error) error { return &fs.PathError{Op: "grep", Path: path, Err: err} }
	binary, unreadable := pathError("a", &fsops.BinaryError{Offset: 7}), pathError("b", fs.ErrPermission)
	for _, tt := range []struct {
		name    string
		grep    Grep
		skipped fsops.SkippedError
		err     error
		out     string
		errs    string
	}{
		{
			"binary files are not a failure",
			Grep{},
			fsops.SkippedError{Errs: []error{binary}},
			ErrNothing, "",
			"grep a: file is binary from byte 7 on, which was not searched\n",
		},
		{
			"others are",
			Grep{},
			fsops.SkippedError{Errs: []error{binary, unreadable}, More: 3},
			ErrIncomplete, "",
			"grep a: file is binary from byte 7 on, which was not searched\ngrep b: permission denied\nand 3 more were skipped\n",
		},
		{
			"as JSON",
			Grep{JSON: true, Stats: fsops.GrepStats{Files: 5, Binary: 2}},
			fsops.SkippedError{Errs: []error{binary, unreadable}},
			ErrIncomplete,
			`{"type":"binary","path":{"text":"a"},"absolute_offset":7,"error":"grep a: file is binary from byte 7 on, which was not searched"}
{"type":"error","path":{"text":"b"},"error":"grep b: permission denied"}
{"type":"summary","files":5,"matches":0,"binary":2,"shortened":0}
`,
			"grep a: file is binary from byte 7 on, which was not searched\ngrep b: permission denied\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs strings.Builder
			tt.grep.Out, tt.grep.Err = &out, &errs
			if err := tt.grep.All(sequence(outcome[fsops.GrepResult]{err: &tt.skipped})); err != tt.err {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff([]string{tt.out, tt.errs}, []string{out.String(), errs.String()}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A signal is a writer that signals each write.
type signal struct {
	mu   sync.Mutex
	text []byte
	came chan struct{}
}

func (s *signal) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.text = slices.Concat(s.text, p)
	s.mu.Unlock()
	s.came <- struct{}{}
	return len(p), nil
}

// hung is how long a test waits for something that must happen.
const hung = 2 * time.Minute

// A match must be printed at once, even if the search then finds nothing for a long
// time.
func TestGrepShowsAMatchWhileTheSearchGoesOn(t *testing.T) {
	out := &signal{came: make(chan struct{}, 10)}
	g := &Grep{Out: out, Err: io.Discard}
	err := g.All(func(yield func(fsops.GrepResult, error) bool) {
		for _, line := range []int64{1, 2} { // the second match must not wait either
			yield(fsops.GrepResult{Kind: fsops.GrepMatch, Path: "a", Line: line, Text: []byte("x")}, nil)
			select {
			case <-out.came:
			case <-time.After(hung):
				t.Error("nothing was printed")
			}
		}
	})
	if err != nil || string(out.text) != "a:1:x\na:2:x\n" {
		t.Errorf("printed %q, error %v", out.text, err)
	}
}

func TestColorsAreForTerminals(t *testing.T) {
	t.Setenv("TERM", "xterm")
	for flag, want := range map[string]bool{"auto": false, "always": true, "never": false} {
		if got := colored(io.Discard, flag); got != want {
			t.Errorf("--color %s: %v, want %v", flag, got, want)
		}
	}
}
