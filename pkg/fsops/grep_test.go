package fsops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grepped returns the results as text, one per line: path:line:text for a match,
// path-line-text for context, and path and count for others. Then come the skipped
// files, as error or binary with the path, and the stats. The results are sorted by
// file. An unsorted search must return the same ones.
func grepped(t testing.TB, f *FS, pattern string, opts GrepOptions) ([]string, GrepStats) {
	t.Helper()
	opts.Sort = true
	lines, stats := greppedOnce(t, f, pattern, opts)
	if opts.Limit > 0 {
		return lines, stats // an unsorted search may stop elsewhere
	}
	opts.Sort = false
	unsorted, unsortedStats := greppedOnce(t, f, pattern, opts)
	slices.Sort(unsorted)
	if sorted := slices.Sorted(slices.Values(lines)); !slices.Equal(sorted, unsorted) || stats != unsortedStats {
		t.Errorf("grep %q %+v: sorted and not:\n%q %+v\n%q %+v", pattern, opts, sorted, stats, unsorted, unsortedStats)
	}
	return lines, stats
}

func greppedOnce(t testing.TB, f *FS, pattern string, opts GrepOptions) ([]string, GrepStats) {
	t.Helper()
	var lines []string
	var stats GrepStats
	opts.Stats = &stats
	results, skipped := collected(t, f.Grep(t.Context(), pattern, opts))
	for _, r := range results {
		switch r.Kind {
		case GrepMatch:
			lines = append(lines, fmt.Sprintf("%s:%d:%s", r.Path, r.Line, r.Text))
		case GrepContext:
			lines = append(lines, fmt.Sprintf("%s-%d-%s", r.Path, r.Line, r.Text))
		case GrepFile:
			lines = append(lines, fmt.Sprintf("%s %d", r.Path, r.Count))
		}
	}
	return append(lines, namesOf(skipped)...), stats
}

func wantGrep(t testing.TB, f *FS, pattern string, opts GrepOptions, want ...string) GrepStats {
	t.Helper()
	got, stats := grepped(t, f, pattern, opts)
	if !slices.Equal(got, want) {
		t.Errorf("grep %q %+v:\n got %q\nwant %q", pattern, opts, got, want)
	}
	return stats
}

func TestGrepAlternationAndClasses(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "alpha\nbeta 12\nGAMMA\n\ndelta")
	for pattern, want := range map[string][]string{
		"alpha|delta":  {"x:1:alpha", "x:5:delta"},
		`\w+\s\d+`:     {"x:2:beta 12"},
		"^[a-d]":       {"x:1:alpha", "x:2:beta 12", "x:5:delta"},
		"a$":           {"x:1:alpha", "x:5:delta"},
		"^$":           {"x:4:"},
		`\Aalpha\z`:    {"x:1:alpha"},
		"(?i)gamma":    {"x:3:GAMMA"},
		`\bbeta\b`:     {"x:2:beta 12"},
		`a\nb`:         nil,
		`(?s)alpha.*b`: nil,
		`[^x]+12`:      {"x:2:beta 12"},
		`a[^q]b`:       nil,
		`\x00`:         nil,
	} {
		wantGrep(t, f, pattern, GrepOptions{}, want...)
	}
	wantGrep(t, f, "gamma", GrepOptions{IgnoreCase: true}, "x:3:GAMMA")
	wantGrep(t, f, "gamma", GrepOptions{})
}

func TestGrepPositionsAndSpans(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "one\ntwo one two\n")
	var got []GrepResult
	for r, err := range f.Grep(t.Context(), "two", GrepOptions{Spans: true}) {
		must(t, err)
		got = append(got, r)
	}
	want := []GrepResult{
		{Kind: GrepMatch, Path: "x", Line: 2, Offset: 4, Text: []byte("two one two"), Spans: []Span{{0, 3}, {8, 11}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGrepInvalidPatternPosition(t *testing.T) {
	f := newTestFS(t)
	for pattern, offset := range map[string]int{
		"a(b": 1, "(a)(b(c)": 3, "a)b": 1, "ab[c": 2, "*a": 0, "a|*b": 2, `\\q\q`: 3, "x[z-a]y": 2, "a**": 1,
		"a{2,1}b": 1, "(?P<n": 0, `a\`: 1, "ok\xff": 2, "\ufffd\xff": 3, `[(]\((`: 5, "a{1001}": 1,
	} {
		results := 0
		for _, err := range f.Grep(t.Context(), pattern, GrepOptions{}) {
			results++
			var bad *PatternError
			if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &bad) {
				t.Fatalf("%q: error is %v", pattern, err)
			}
			if bad.Offset != offset || bad.Pattern != pattern {
				t.Errorf("%q: offset %d, want %d (%v)", pattern, bad.Offset, offset, err)
			}
		}
		if results != 1 {
			t.Errorf("%q: %d results, want the error alone", pattern, results)
		}
	}
	for _, err := range f.Grep(t.Context(), "x", GrepOptions{Include: []string{"[a"}}) {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("invalid include: %v", err)
		}
	}
}

func TestGrepPathsWithColons(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "a:1:b", "x: y\n")
	put(t, f, "new\nline", "x\n")
	put(t, f, "\xff", "x\xfe\n")
	wantGrep(t, f, "x", GrepOptions{}, "a:1:b:1:x: y", "new\nline:1:x", "\xff:1:x\xfe")
}

func TestGrepSkipsGitDirectory(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, ".git/config", "sub/.git/config", "config", ".hidden/config")
	wantGrep(t, f, "config", GrepOptions{}, "config:1:config")
	wantGrep(t, f, "config", GrepOptions{Hidden: true}, ".hidden/config:1:.hidden/config", "config:1:config")
	wantGrep(t, f, "config", GrepOptions{NoIgnore: true}, ".git/config:1:.git/config", "config:1:config", "sub/.git/config:1:sub/.git/config")
	wantGrep(t, f, "config", GrepOptions{Paths: []string{".git"}}, ".git/config:1:.git/config")
}

func TestGrepHonoursIgnoreFiles(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, ".git/info/", "a.log", "a.txt", "node_modules/m/x.txt", "sub/b.log", "sub/keep.log", "sub/deep/c.tmp")
	put(t, f, ".gitignore", "*.log\nnode_modules/\n")
	put(t, f, "sub/.gitignore", "!keep.log\n")
	put(t, f, ".git/info/exclude", "*.tmp\n")
	all := []string{"a.log:1:a.log", "a.txt:1:a.txt", "node_modules/m/x.txt:1:node_modules/m/x.txt", "sub/b.log:1:sub/b.log", "sub/deep/c.tmp:1:sub/deep/c.tmp", "sub/keep.log:1:sub/keep.log"}
	wantGrep(t, f, `\.`, GrepOptions{}, "a.txt:1:a.txt", "sub/keep.log:1:sub/keep.log")
	wantGrep(t, f, `^[ans].*\.[a-z]+$`, GrepOptions{NoIgnore: true}, all...)
	wantGrep(t, f, `\.`, GrepOptions{Paths: []string{"sub"}}, "sub/keep.log:1:sub/keep.log")
	wantGrep(t, f, `\.`, GrepOptions{Paths: []string{"sub/deep"}})
	// Paths that are named are searched.
	wantGrep(t, f, `\.`, GrepOptions{Paths: []string{"a.log", "node_modules"}}, "a.log:1:a.log", "node_modules/m/x.txt:1:node_modules/m/x.txt")
}

func TestGrepIncludeAndExclude(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a.go", "a_test.go", "a.md", "src/b.go", "src/gen/c.go", "vendor/v/d.go")
	names := func(opts GrepOptions) (files []string) {
		lines, _ := grepped(t, f, "^", opts)
		for _, line := range lines {
			files = append(files, line[:strings.IndexByte(line, ':')])
		}
		return files
	}
	for _, test := range []struct {
		opts GrepOptions
		want string
	}{
		{GrepOptions{Include: []string{"*.go"}}, "a.go a_test.go src/b.go src/gen/c.go vendor/v/d.go"},
		{GrepOptions{Include: []string{"*.go"}, Exclude: []string{"*_test.go", "vendor"}}, "a.go src/b.go src/gen/c.go"},
		{GrepOptions{Include: []string{"src/*.go"}}, "src/b.go"},
		{GrepOptions{Include: []string{"src/**"}, Exclude: []string{"src/gen/**"}}, "src/b.go"},
		{GrepOptions{Include: []string{"*.{md,txt}", "**/d.go"}}, "a.md vendor/v/d.go"},
		{GrepOptions{Paths: []string{"src"}, Include: []string{"gen/*"}}, "src/gen/c.go"},
		{GrepOptions{Paths: []string{"a.go"}, Include: []string{"*.md"}}, ""},
		{GrepOptions{Exclude: []string{"**"}}, ""},
		{GrepOptions{Exclude: []string{"vendor/", "a.md/", "gen/"}}, "a.go a.md a_test.go src/b.go"},
		{GrepOptions{Exclude: []string{"/a.go", "/gen", "src/gen/", "/vendor/"}}, "a.md a_test.go src/b.go"},
		{GrepOptions{Include: []string{"/a.go", "/b.go"}}, "a.go"},
		{GrepOptions{Include: []string{"gen/", "/vendor/", "v/none/"}}, "src/gen/c.go vendor/v/d.go"},
		{GrepOptions{Include: []string{"a*/", "*.go/"}}, ""},
		{GrepOptions{Include: []string{"*/"}}, "src/b.go src/gen/c.go vendor/v/d.go"},
		{GrepOptions{Include: []string{"src/"}, Exclude: []string{"/src/gen/"}}, "src/b.go"},
	} {
		if got := strings.Join(names(test.opts), " "); got != test.want {
			t.Errorf("%+v: %q, want %q", test.opts, got, test.want)
		}
	}
}

func TestGrepOrderIsThatOfPathBytes(t *testing.T) {
	f := newTestFS(t)
	var want []string
	for _, name := range []string{"a/x", "a-b", "a.c/y", "a0", "B", "a/-", "é", "ab/c/d", "ab/c.d", "z/1", "z/0/9"} {
		makeTree(t, f, name)
		want = append(want, name+":1:"+name)
	}
	slices.SortFunc(want, func(a, b string) int {
		return strings.Compare(a[:strings.IndexByte(a, ':')], b[:strings.IndexByte(b, ':')])
	})
	wantGrep(t, f, "", GrepOptions{}, want...)
	// A file is not repeated if paths overlap.
	got, _ := grepped(t, f, "", GrepOptions{Paths: []string{"z", "ab", "a/x", "a", "z/0"}})
	if !slices.IsSorted(got) || len(got) != 6 {
		t.Errorf("results of several paths: %q", got)
	}
}

func TestGrepPathsAreReportedAsTheyWereNamed(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/x", "link -> dir", "flink -> dir/x")
	wantGrep(t, f, "x", GrepOptions{Paths: []string{at(f, "dir")}}, at(f, "dir/x")+":1:dir/x")
	wantGrep(t, f, "x", GrepOptions{Paths: []string{"./dir/"}}, "dir/x:1:dir/x")
	wantGrep(t, f, "x", GrepOptions{Paths: []string{"dir/.."}}, "dir/x:1:dir/x")
	wantGrep(t, f, "x", GrepOptions{Paths: []string{"link"}}, "link/x:1:dir/x")
	wantGrep(t, f, "x", GrepOptions{Paths: []string{"flink"}}, "flink:1:dir/x")
	wantGrep(t, f, "x", GrepOptions{}, "dir/x:1:dir/x")
}

func TestGrepMissingPath(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "x")
	n := 0
	for _, err := range f.Grep(t.Context(), "x", GrepOptions{Paths: []string{"missing"}}) {
		n++
		wantPathError(t, err, "grep", "missing", fs.ErrNotExist)
	}
	if n != 1 {
		t.Errorf("%d results, want the error alone", n)
	}
	wantGrep(t, f, "x", GrepOptions{Paths: []string{"x", "missing"}}, "x:1:x", "error missing")
}

func TestGrepContextGivesEachLineOnce(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "1\n2\nA\n4\nA\n6\n7\n8\n9\nA\nA\n12\n13")
	wantGrep(t, f, "A", GrepOptions{Before: 1, After: 1},
		"x-2-2", "x:3:A", "x-4-4", "x:5:A", "x-6-6", "x-9-9", "x:10:A", "x:11:A", "x-12-12")
	wantGrep(t, f, "A", GrepOptions{Before: 3}, "x-1-1", "x-2-2", "x:3:A", "x-4-4", "x:5:A", "x-7-7", "x-8-8", "x-9-9", "x:10:A", "x:11:A")
	wantGrep(t, f, "A", GrepOptions{After: 9}, "x:3:A", "x-4-4", "x:5:A", "x-6-6", "x-7-7", "x-8-8", "x-9-9", "x:10:A", "x:11:A", "x-12-12", "x-13-13")
	for _, opts := range []GrepOptions{{Before: -1}, {After: maxGrepContext + 1}} {
		for _, err := range f.Grep(t.Context(), "A", opts) {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%+v: error is %v", opts, err)
			}
		}
	}
}

// The context must be the same wherever the blocks of a large file end.
func TestGrepContextAcrossBlocks(t *testing.T) {
	f := newTestFS(t)
	var content bytes.Buffer
	var want []string
	for i := range 60_000 {
		line := fmt.Sprintf("line %d", i+1)
		if i%1000 == 999 {
			line += " match"
		}
		fmt.Fprintln(&content, line)
		switch i % 1000 {
		case 997, 998:
			want = append(want, fmt.Sprintf("x-%d-%s", i+1, line))
		case 999:
			want = append(want, fmt.Sprintf("x:%d:%s", i+1, line))
		case 0:
			if i > 0 {
				want = append(want, fmt.Sprintf("x-%d-%s", i+1, line))
			}
		}
	}
	if content.Len() < 2*blockSize {
		t.Fatal("the file is too small for this test")
	}
	put(t, f, "x", content.String())
	wantGrep(t, f, "match", GrepOptions{Before: 2, After: 1}, want...)
	for r, err := range f.Grep(t.Context(), "match", GrepOptions{Before: 2, After: 1}) {
		must(t, err)
		if !bytes.HasPrefix(content.Bytes()[r.Offset:], append(r.Text, '\n')) {
			t.Fatalf("line %d is not at offset %d", r.Line, r.Offset)
		}
	}
}

func TestGrepReportsTruncation(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "a", "A\n-\nA\n-\nA\n")
	put(t, f, "b", "A\n")
	put(t, f, "c", "-\n")
	wantGrep(t, f, "A", GrepOptions{MaxPerFile: 3}, "a:1:A", "a:3:A", "a:5:A", "b:1:A")
	for _, stats := range []GrepStats{
		wantGrep(t, f, "A", GrepOptions{MaxPerFile: 2}, "a:1:A", "a:3:A", "b:1:A"),
		wantGrep(t, f, "A", GrepOptions{MaxPerFile: 1, After: 1, Before: 1}, "a:1:A", "a-2--", "b:1:A"),
		wantGrep(t, f, "A", GrepOptions{MaxPerFile: 1, After: 3}, "a:1:A", "a-2--", "a:3:A", "a-4--", "b:1:A"),
	} {
		if stats.Shortened != 1 || stats.Truncated {
			t.Errorf("with matches left out of one file: %+v", stats)
		}
	}
	for limit, truncated := range map[int]bool{1: true, 3: true, 4: false, 5: false} {
		_, stats := grepped(t, f, "A", GrepOptions{Limit: limit})
		if stats.Truncated != truncated || stats.Matches != int64(min(limit, 4)) {
			t.Errorf("limit %d: %+v", limit, stats)
		}
	}
	wantGrep(t, f, "A", GrepOptions{Limit: 2, Before: 1, After: 1}, "a:1:A", "a-2--", "a:3:A", "a-4--")
	wantGrep(t, f, "A", GrepOptions{Limit: 3, Before: 1}, "a:1:A", "a-2--", "a:3:A", "a-4--", "a:5:A")
}

func TestGrepBinaryFiles(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "early", "match\n\x00\nmatch\n")
	late := "match\n" + strings.Repeat("filler\n", blockSize/7+1) + "match\nmatch \x00\nmatch\n"
	put(t, f, "late", late)
	put(t, f, "text", "match\n")
	lines := []string{"late:1:match", fmt.Sprintf("late:%d:match", blockSize/7+3), "text:1:match"}
	stats := wantGrep(t, f, "match", GrepOptions{}, append(lines, "binary late")...)
	if stats.Files != 2 || stats.Binary != 1 {
		t.Errorf("%+v, want 2 files searched and 1 left out", stats)
	}
	stats = wantGrep(t, f, "match", GrepOptions{Paths: []string{"early", "late", "text"}}, append(lines, "binary early", "binary late")...)
	if stats.Files != 2 || stats.Binary != 0 {
		t.Errorf("%+v, want 2 files searched and none left out", stats)
	}
	for _, sorted := range []bool{false, true} {
		_, skipped := collected(t, f.Grep(t.Context(), "match", GrepOptions{Sort: sorted}))
		want := fmt.Sprintf("grep late: file is binary from byte %d on, which was not searched", strings.Index(late, "match \x00"))
		if len(skipped) != 1 || skipped[0].Error() != want {
			t.Errorf("skipped %v, want %q", skipped, want)
		}
	}
}

func TestGrepCarriageReturns(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "one\r\ntwo\r\nend")
	wantGrep(t, f, "one$", GrepOptions{}, "x:1:one\r")
	wantGrep(t, f, "^...$", GrepOptions{}, "x:1:one\r", "x:2:two\r", "x:3:end")
	wantGrep(t, f, `o\r$`, GrepOptions{}, "x:2:two\r")
	wantGrep(t, f, `\r`, GrepOptions{}, "x:1:one\r", "x:2:two\r")
}

func TestGrepLongLines(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "short\n"+strings.Repeat("é", 4000)+"match"+strings.Repeat("x", 100)+"\nmatch\n")
	var got []GrepResult
	for r, err := range f.Grep(t.Context(), "match", GrepOptions{}) {
		must(t, err)
		got = append(got, r)
	}
	if len(got) != 2 || len(got[0].Text) != maxGrepLine || got[0].Cut != 8105-maxGrepLine || len(got[0].Spans) != 0 {
		t.Fatalf("results %+v", got)
	}
	if got[1].Line != 3 || got[1].Offset != 6+8105+1 {
		t.Errorf("the line after: %d at %d", got[1].Line, got[1].Offset)
	}
	put(t, f, "x", "x"+strings.Repeat("é", 4000)+"\n")
	for r, err := range f.Grep(t.Context(), "x", GrepOptions{}) {
		must(t, err)
		if r.Kind == GrepMatch && len(r.Text) != maxGrepLine-1 {
			t.Errorf("the text is cut to %d bytes, within a character", len(r.Text))
		}
	}
}

func TestGrepMemoryIsBoundedForEndlessLines(t *testing.T) {
	f := newTestFS(t)
	long := strings.Repeat("0123456789abcdef", (maxGrepSearchLine+3*blockSize)/16)
	put(t, f, "x", "match\n"+long+"match\nmatch\n")
	wantGrep(t, f, "match", GrepOptions{}, "x:1:match", "x:3:match", "error x")
	for _, pattern := range []string{"match", "0123456789abcdef"} {
		results, skipped := collected(t, f.Grep(t.Context(), pattern, GrepOptions{}))
		for _, r := range results {
			if r.Line == 2 && r.Cut != int64(len(long)+5-maxGrepLine) || r.Line == 3 && r.Offset != int64(6+len(long)+6) {
				t.Errorf("result %v, line %d at %d, cut %d", r.Kind, r.Line, r.Offset, r.Cut)
			}
		}
		if len(skipped) != 1 || skipped[0].Error() != "grep x: line 2: "+errGrepLine.Error() {
			t.Errorf("skipped %v, want the end of line 2", skipped)
		}
	}
}

func TestGrepEndsWithItsCaller(t *testing.T) {
	f := newTestFS(t)
	for i := range 200 {
		put(t, f, fmt.Sprintf("f%03d", i), strings.Repeat("match\n", 500))
	}
	for range f.Grep(t.Context(), "match", GrepOptions{}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	n := 0
	for _, err := range f.Grep(ctx, "match", GrepOptions{}) {
		last = err
		if n++; n == 10 {
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || n >= 200*500 {
		t.Errorf("%d results, the last error is %v", n, last)
	}
	cancel()
}

func FuzzGrep(f *testing.F) {
	fsys := newTestFS(f)
	for _, pattern := range []string{"a|b", "^$", "a$", `\bb\b`, "(?i)A", `[^a]`, `\r`, `\s`, `.*`, `(?m)^a$`, `(?-m:$)`, `\A.`, `x*`, "(?s).", "a(|b)$", `$\b`, "é"} {
		f.Add(pattern, "a\nb a\r\n\nAb\r\n\xffé", false)
	}
	f.Fuzz(func(t *testing.T, pattern, content string, ignoreCase bool) {
		flags := ""
		if ignoreCase {
			flags = "(?i)"
		}
		re, err := regexp.Compile(flags + "(?:" + pattern + ")")
		if _, plain := regexp.Compile(pattern); err != nil || plain != nil || strings.Contains(content, "\x00") || len(content) > maxGrepLine || strings.Contains(pattern, `\Q`) {
			return
		}
		keepCR := strings.Contains(pattern, "\r") || strings.Contains(pattern, `\r`) || strings.ContainsAny(pattern, `\`) && strings.Contains(content, "\r")
		if keepCR {
			return // whether the pattern names a carriage return is beyond the oracle
		}
		put(t, fsys, "file", content)
		var want, got []GrepResult
		offset := int64(0)
		for i, line := range strings.SplitAfter(content, "\n") {
			if line == "" {
				break
			}
			text := strings.TrimSuffix(line, "\n")
			if spans := re.FindAllStringIndex(strings.TrimSuffix(text, "\r"), -1); spans != nil {
				r := GrepResult{Kind: GrepMatch, Path: "file", Line: int64(i + 1), Offset: offset, Text: []byte(text)}
				for _, s := range spans {
					r.Spans = append(r.Spans, Span{s[0], s[1]})
				}
				want = append(want, r)
			}
			offset += int64(len(line))
		}
		for r, err := range fsys.Grep(context.Background(), pattern, GrepOptions{IgnoreCase: ignoreCase, Spans: true, Paths: []string{"file"}}) {
			must(t, err)
			got = append(got, r)
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("text", func(b []byte) string { return string(b) })); diff != "" {
			t.Errorf("pattern %q, content %q: lines alone (-) and Grep (+) disagree:\n%s", pattern, content, diff)
		}
	})
}
