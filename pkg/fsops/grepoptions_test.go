//go:build unix

package fsops

import (
	"errors"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGrepCaseWordAndFixed(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "Word\nword\nwords\na.b\naxb\n")
	wantGrep(t, f, "word", GrepOptions{SmartCase: true}, "x:1:Word", "x:2:word", "x:3:words")
	wantGrep(t, f, "Word", GrepOptions{SmartCase: true}, "x:1:Word")
	wantGrep(t, f, "word", GrepOptions{Word: true}, "x:2:word")
	wantGrep(t, f, "a.b", GrepOptions{Fixed: true}, "x:4:a.b")
}

func TestGrepReports(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "a", "A\n-\nA\nA\n")
	put(t, f, "b", "-\n")
	put(t, f, "c", "A")
	stats := wantGrep(t, f, "A", GrepOptions{Report: GrepFiles}, "a 0", "c 0")
	if want := (GrepStats{Files: 3, Matches: 2}); stats != want {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
	stats = wantGrep(t, f, "A", GrepOptions{Report: GrepCounts}, "a 3", "c 1")
	if want := (GrepStats{Files: 3, Matches: 4}); stats != want {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
	wantGrep(t, f, "A", GrepOptions{Report: GrepCounts, MaxPerFile: 2}, "a 2", "c 1")
	stats = wantGrep(t, f, "A", GrepOptions{Report: GrepCounts, Limit: 1}, "a 3")
	if !stats.Truncated {
		t.Error("the search does not report that there are more files")
	}
}

func TestGrepMultiline(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", "0\nfunc a() {\n}\n1\nfunc b() {\n\n}\n")
	opts := GrepOptions{Multiline: true, Spans: true, After: 1}
	var got []GrepResult
	for r, err := range f.Grep(t.Context(), `\{\n\}`, opts) {
		must(t, err)
		got = append(got, r)
	}
	want := []GrepResult{
		{Kind: GrepMatch, Path: "x", Line: 2, Offset: 2, Text: []byte("func a() {\n}"), Spans: []Span{{9, 12}}},
		{Kind: GrepContext, Path: "x", Line: 4, Offset: 15, Text: []byte("1")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestGrepMultilineOfLargeFiles(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "most", strings.Repeat("x\n", maxGrepSearchLine/2-2)+"a\nb\n")
	put(t, f, "more", strings.Repeat("x\n", maxGrepSearchLine/2-1)+"a\nb\n")
	wantGrep(t, f, `a\nb`, GrepOptions{Multiline: true}, "most:8388607:a\nb", "error more")
}

func TestGrepByteOrderMarks(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "8", "\xef\xbb\xbfé\nb")
	put(t, f, "be", "\xfe\xff\x00\xe9\x00\n\x00b")
	put(t, f, "le", "\xff\xfe\xe9\x00\n\x00b\x00")
	put(t, f, "odd", "\xff\xfeb\x00\x00\xd8\n\x00b")
	put(t, f, "only", "\xff\xfe")
	wantGrep(t, f, "^é$", GrepOptions{}, "8:1:é", "be:1:é", "le:1:é")
	wantGrep(t, f, "^b", GrepOptions{}, "8:2:b", "be:2:b", "le:2:b", "odd:1:b\ufffd")
	offsets := map[string]int64{}
	for r, err := range f.Grep(t.Context(), "b", GrepOptions{Paths: []string{"8", "be"}}) {
		must(t, err)
		if r.Kind == GrepMatch {
			offsets[r.Path] = r.Offset
		}
	}
	if want := map[string]int64{"8": 6, "be": 3}; !maps.Equal(offsets, want) {
		t.Errorf("the lines are at %v, want %v", offsets, want)
	}
}

func TestGrepCutsLinesAtTheGivenLength(t *testing.T) {
	f := newTestFS(t)
	put(t, f, "x", strings.Repeat("y", 2*maxGrepLine)+"\n")
	for maxLine, want := range map[int]int{0: maxGrepLine, 10: 10, maxGrepText: 2 * maxGrepLine} {
		matches := 0
		for r, err := range f.Grep(t.Context(), "y", GrepOptions{MaxLine: maxLine}) {
			must(t, err)
			if r.Kind != GrepMatch {
				continue
			}
			if matches++; len(r.Text) != want || r.Cut != int64(2*maxGrepLine-want) {
				t.Errorf("at most %d: %d bytes, %d cut", maxLine, len(r.Text), r.Cut)
			}
		}
		if matches != 1 {
			t.Errorf("at most %d: %d matches", maxLine, matches)
		}
	}
	for _, opts := range []GrepOptions{{MaxLine: -1}, {MaxLine: maxGrepText + 1}, {MaxLine: maxGrepText, Before: 9}, {Report: 3}, {Limit: -1}} {
		if err := onlyError(t, f.Grep(t.Context(), "y", opts)); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%+v: error is %v", opts, err)
		}
	}
}

func TestGrepFollowsLinksWhenAskedTo(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/x", "link -> dir", "dir/file -> x", "dir/up -> ..", "nowhere -> missing", "self -> self")
	wantGrep(t, f, "x", GrepOptions{}, "dir/x:1:dir/x")
	wantGrep(t, f, "x", GrepOptions{Follow: true},
		"dir/file:1:dir/x", "dir/x:1:dir/x", "link/file:1:dir/x", "link/x:1:dir/x",
		"error dir/up", "error link/up", "error nowhere", "error self")
}

// A path inside of another one is searched only once.
func TestGrepOfPathsWithinOthers(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a/b/c/x", "a/b/x", "a/x", "ab/x")
	put(t, f, ".gitignore", "b\n")
	for _, paths := range [][]string{{"a", "a/b/c", "ab"}, {"ab", "a/b/c/x", "a", "./a/"}, {"a/b/c", at(f, "a/b/c"), "a", "ab/x"}} {
		wantGrep(t, f, "x", GrepOptions{Paths: paths}, "a/b/c/x:1:a/b/c/x", "a/x:1:a/x", "ab/x:1:ab/x")
	}
}

// A file may lie so deep that the system does not accept its whole path.
func TestGrepInADeepTree(t *testing.T) {
	f := newTestFS(t)
	t.Chdir(f.Workdir())
	for range 100 {
		name := strings.Repeat("d", 60)
		must(t, os.Mkdir(name, 0o777))
		must(t, os.Chdir(name))
	}
	must(t, os.WriteFile("x", []byte("needle"), 0o600))
	lines, stats := greppedOnce(t, f, "needle", GrepOptions{})
	if len(lines) != 1 || stats.Files != 1 {
		t.Errorf("found %d lines in %d files", len(lines), stats.Files)
	}
}
