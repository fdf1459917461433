package render

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops"
)

// outcome is a result of a search, or an error instead.
type outcome[T any] struct {
	result T
	err    error
}

func sequence[T any](outcomes ...outcome[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, o := range outcomes {
			if !yield(o.result, o.err) {
				return
			}
		}
	}
}

func TestGlobSaysWhatCannotBeRead(t *testing.T) {
	var out, errs strings.Builder
	g := &Glob{Out: &out, Err: &errs, Stats: fsops.GlobStats{Truncated: true}}
	err := g.All(sequence(
		outcome[fsops.GlobMatch]{result: fsops.GlobMatch{Path: "a"}},
		outcome[fsops.GlobMatch]{err: &fsops.SkippedError{Errs: []error{&fs.PathError{Op: "glob", Path: "d", Err: fs.ErrPermission}}, More: 1}},
	))
	if !errors.Is(err, ErrIncomplete) {
		t.Errorf("error %v, want %v", err, ErrIncomplete)
	}
	if diff := cmp.Diff("a\n", out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("glob d: permission denied\nand 1 more were skipped\nthe limit was reached: more names were left out\n", errs.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTruncatedGlobWithoutNamesFindsNothing(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		g := &Glob{Out: io.Discard, Err: io.Discard, JSON: asJSON, Stats: fsops.GlobStats{Truncated: true}}
		if err := g.All(sequence[fsops.GlobMatch]()); !errors.Is(err, ErrNothing) {
			t.Errorf("JSON %v: got error %v, want %v", asJSON, err, ErrNothing)
		}
	}
}

func TestGrepFindsOnlyMatches(t *testing.T) {
	match := outcome[fsops.GrepResult]{result: fsops.GrepResult{Kind: fsops.GrepMatch, Path: "a", Line: 1, Text: []byte("x")}}
	broken := outcome[fsops.GrepResult]{err: fs.ErrClosed}
	for _, tt := range []struct {
		name    string
		results iter.Seq2[fsops.GrepResult, error]
		out     string
		err     error
	}{
		{"a match", sequence(match), "a:1:x\n", nil},
		{"none", sequence[fsops.GrepResult](), "", ErrNothing},
		{"broken off", sequence(match, broken), "a:1:x\n", fs.ErrClosed},
	} {
		var out strings.Builder
		g := &Grep{Out: &out, Err: io.Discard}
		if err := g.All(tt.results); !errors.Is(err, tt.err) {
			t.Errorf("%s: error %v, want %v", tt.name, err, tt.err)
		}
		if out.String() != tt.out {
			t.Errorf("%s: printed %q, want %q", tt.name, out.String(), tt.out)
		}
	}
}

func TestGlobsFlag(t *testing.T) {
	var opts fsops.GrepOptions
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var((*Globs)(&opts), "g", "")
	if err := flags.Parse([]string{"-g", "*.go", "-g", "!x/**", "-g", `\!y`}); err != nil {
		t.Fatal(err)
	}
	want := fsops.GrepOptions{Include: []string{"*.go", `\!y`}, Exclude: []string{"x/**"}}
	if diff := cmp.Diff(want, opts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, empty := range []string{"", "!"} {
		if err := flags.Parse([]string{"-g", empty}); err == nil {
			t.Errorf("the glob %q is accepted", empty)
		}
	}
}
