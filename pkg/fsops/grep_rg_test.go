//go:build unix && !race

package fsops

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tests of this file and of grep_rgtrees_test.go compare FS.Grep with the real
// ripgrep. This is the list of all differences between the two, and how the
// comparison handles them:
//
//   - Go's \w, \d, \s, \b and -w are ASCII only. For patterns with them, rg gets
//     --no-unicode and only ASCII is searched, because --no-unicode also changes
//     what . and classes match.
//   - Invalid UTF-8 is U+FFFD for Go, and matches nothing for rg. Patterns that
//     could match it are not used where there is some.
//   - A carriage return at the end of a line is not matched here, unless the
//     pattern names it. With rg --crlf, . and classes match it, while $ matches
//     before it. Patterns that could match it are not used where there is some.
//   - In a file with a UTF-8 byte order mark, rg's offsets are less by 3.
//   - rg -g with an including glob overrides ignore rules and hidden files. It is
//     compared only where neither are in force.
//   - rg -U joins matches in adjacent lines into one result, so lines are compared
//     one by one. A span here does not contain the newline after the last line. rg
//     13 does not find \b^.
//   - In a file with a NUL byte, rg shows the lines before it. It does not accept a
//     pattern that is not UTF-8. Here, lines of over 16 MiB are cut.
//   - rg -w misses a match that is separated from the previous one by only one
//     character. The lines are compared, the spans are not. Nor does rg find \B\B
//     with an anchor.
//   - Empty matches: rg reports some inside of a character, and none at the end of
//     a last line without a newline. After one, it takes every place for \b. The
//     lines are compared; empty spans, and those of \b and \B, are not.
//   - rg's globs do not match in a directory with a newline in its name.
//   - .git is a hidden file for rg. Here it is left out together with ignored
//     files, so rg gets -g '!.git', or FS.Grep an Exclude.
//   - (?m) is the default of both. \A and \z are the ends of the line here, and of
//     a buffer in rg, so they are not used.

// rgArgs returns rg's arguments for a search.
func rgArgs(pattern string, opts GrepOptions) []string {
	args := []string{"--no-config", "--no-messages", "--no-require-git", "--null", "--with-filename"}
	for flag, set := range map[string]bool{
		"--json": opts.Report == GrepLines, "-l": opts.Report == GrepFiles, "-c": opts.Report == GrepCounts,
		"-i": opts.IgnoreCase, "-S": opts.SmartCase, "-F": opts.Fixed, "-w": opts.Word, "-U": opts.Multiline,
		"--hidden": opts.Hidden, "--no-ignore": opts.NoIgnore, "--follow": opts.Follow,
		"-g=!.git":     !opts.NoIgnore,
		"--no-unicode": opts.Word || usesASCIIClass(pattern, opts),
		"-j1":          opts.Multiline, // makes rg end if it fails, see errRgFailed
	} {
		if set {
			args = append(args, flag)
		}
	}
	for flag, n := range map[string]int{"-A": opts.After, "-B": opts.Before, "-m": opts.MaxPerFile} {
		if n > 0 {
			args = append(args, flag, strconv.Itoa(n))
		}
	}
	for _, glob := range opts.Include {
		args = append(args, "-g", glob)
	}
	for _, glob := range opts.Exclude {
		args = append(args, "-g", "!"+glob)
	}
	return append(append(args, "-e", pattern, "--"), opts.Paths...)
}

// usesASCIIClass reports whether a pattern uses a class that is ASCII only for Go.
func usesASCIIClass(pattern string, opts GrepOptions) bool {
	if opts.Fixed {
		return false
	}
	for _, class := range []string{`\w`, `\d`, `\s`, `\b`, `\W`, `\D`, `\S`, `\B`} {
		if strings.Contains(pattern, class) {
			return true
		}
	}
	return false
}

// errRgFailed says that rg itself failed. rg -U does so for a few patterns that
// match the end of a line.
var errRgFailed = errors.New("rg panicked")

// runRg runs rg in a directory, as a user without a configuration.
func runRg(t *testing.T, dir string, args []string) ([]byte, error) {
	t.Helper()
	cmd := exec.Command("rg", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Fatal("this test compares with ripgrep, which is not installed: ", err)
	}
	if bytes.Contains(stderr.Bytes(), []byte("panicked")) {
		return nil, errRgFailed
	}
	// 1 means no match; 2 may also mean a dangling link.
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && stderr.Len() == 0 && exit.ExitCode() <= 2 {
		err = nil
	}
	if err != nil {
		t.Fatalf("rg %q: %v\n%s", args, err, stderr.Bytes())
	}
	return out, nil
}

// rgLines returns rg's results, in the format of ourLines.
func rgLines(t *testing.T, dir string, args []string, opts GrepOptions) (lines []string, err error) {
	t.Helper()
	out, err := runRg(t, dir, args)
	if err != nil {
		return nil, err
	}
	if opts.Report != GrepLines {
		for len(out) > 0 {
			path, rest, _ := bytes.Cut(out, []byte{0})
			count := []byte("0")
			if out = rest; opts.Report == GrepCounts {
				count, out, _ = bytes.Cut(rest, []byte("\n"))
				count = bytes.TrimSuffix(count, []byte("\r")) // with --crlf
			}
			lines = append(lines, fmt.Sprintf("%s %s", path, count))
		}
		return lines, nil
	}
	for message := range bytes.Lines(out) {
		lines = append(lines, parseRg(t, message, opts)...)
	}
	return lines, nil
}

// An rgText is a text in rg's JSON.
type rgText struct {
	Text  *string `json:"text"`
	Bytes []byte  `json:"bytes"`
}

func (x rgText) String() string {
	if x.Text != nil {
		return *x.Text
	}
	return string(x.Bytes)
}

func parseRg(t *testing.T, message []byte, opts GrepOptions) []string {
	var m struct {
		Type string
		Data struct {
			Path       rgText
			Lines      rgText
			Number     int64 `json:"line_number"`
			Offset     int64 `json:"absolute_offset"`
			Submatches []struct{ Start, End int }
		}
	}
	must(t, json.Unmarshal(message, &m))
	d := m.Data
	r := GrepResult{Path: d.Path.String(), Text: []byte(strings.TrimSuffix(d.Lines.String(), "\n")), Line: d.Number, Offset: d.Offset}
	switch m.Type {
	case "match":
		r.Kind = GrepMatch
	case "context":
		r.Kind = GrepContext
	default:
		return nil
	}
	if strings.HasSuffix(r.Path, ".bom") {
		r.Offset += int64(len(utf8Mark))
	}
	for _, s := range d.Submatches {
		if s.End > s.Start && d.Lines.String()[s.End-1] == '\n' {
			s.End--
		}
		r.Spans = append(r.Spans, Span(s))
	}
	return describe(r, opts)
}

// describe returns a line for each line of a result, and one for each non-empty
// match in it.
func describe(r GrepResult, opts GrepOptions) (lines []string) {
	number, offset := r.Line, r.Offset
	for _, text := range bytes.Split(r.Text, []byte("\n")) {
		mark := map[GrepKind]string{GrepMatch: ":", GrepContext: "-"}[r.Kind]
		lines = append(lines, fmt.Sprintf("%s%s%d%s%d%s%q", r.Path, mark, number, mark, offset, mark, text))
		number, offset = number+1, offset+int64(len(text))+1
	}
	if opts.Spans && r.Kind == GrepMatch {
		for _, s := range r.Spans {
			if s.Start == s.End {
				continue
			}
			lines = append(lines, fmt.Sprintf("%s: match from %d to %d", r.Path, r.Offset+int64(s.Start), r.Offset+int64(s.End)))
		}
	}
	return lines
}

// ourLines returns FS.Grep's results.
func ourLines(t *testing.T, f *FS, pattern string, opts GrepOptions) (lines []string) {
	t.Helper()
	results, _ := collected(t, f.Grep(t.Context(), pattern, opts))
	for _, r := range results {
		switch r.Kind {
		case GrepMatch, GrepContext:
			lines = append(lines, describe(r, opts)...)
		case GrepFile:
			lines = append(lines, fmt.Sprintf("%s %d", r.Path, r.Count))
		}
	}
	return lines
}

// compareWithRg reports an error if FS.Grep and rg, with these further flags, do
// not find the same. It returns errRgFailed if the comparison was not possible.
func compareWithRg(t *testing.T, f *FS, pattern string, opts GrepOptions, flags ...string) error {
	t.Helper()
	opts.MaxLine = maxGrepText
	args := append(flags, rgArgs(pattern, opts)...)
	want, err := rgLines(t, f.Workdir(), args, opts)
	if err != nil {
		return err
	}
	if opts.NoIgnore && !opts.Hidden {
		opts.Exclude = append(opts.Exclude, ".git")
	}
	got := ourLines(t, f, pattern, opts)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("pattern %q, options %+v:\nrg %q (-) and Grep (+) disagree:\n%.4000s", pattern, opts, args, cmp.Diff(want, got))
	}
	return nil
}

// withoutUser hides the user's git and rg configuration from the test.
func withoutUser(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
}
