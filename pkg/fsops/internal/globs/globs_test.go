package globs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

func TestCountAlternatives(t *testing.T) {
	for pattern, want := range map[string]int{
		"a,b": 1, "{a}": 1, "{a,b}": 2, "{a,b}{c,d,}": 6, "{a,{b,c}d}": 3, "{a,{b,c}{d,e}}x{f,g}": 10, `\{a,b`: 1, "[{,}]{a,b}": 2, `{a\,b,c}`: 2,
		strings.Repeat("{a,b}", 16): maxPatterns, strings.Repeat("{a,b}", 100): maxPatterns + 1,
	} {
		if got := countAlternatives(pattern); got != want {
			t.Errorf("%s: %d, want %d", pattern, got, want)
		}
		if all := expand(pattern); want <= maxAlternatives && len(all) != want {
			t.Errorf("%s is expanded to %q, want %d", pattern, all, want)
		}
	}
}

func TestExpandOfTooManyIsAnError(t *testing.T) {
	var fault *SyntaxError
	if all, err := Expand(strings.Repeat("{a,b}", 9)); all != nil || !errors.As(err, &fault) {
		t.Errorf("%d patterns, error %v", len(all), err)
	}
}

func TestMatchTellsInvalidBytesApart(t *testing.T) {
	for pattern, want := range map[string][]string{
		"\xff": {"\xff"}, "?": {"a", "é", "\xff", "\xfe"}, "[\xfe-\xff]": {"\xff", "\xfe"}, "*\xfe": {"\xfe"},
	} {
		got := slices.DeleteFunc([]string{"a", "é", "\xff", "\xfe", "\xff\xff"}, func(name string) bool { return !Match(pattern, name) })
		if !slices.Equal(got, want) {
			t.Errorf("%q matches %q, want %q", pattern, got, want)
		}
	}
}

func TestSetSelectsAsGitignoreDoes(t *testing.T) {
	set, err := NewSet([]string{"*.go", "/top", "a/*.c", "dir/"})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"x.go": true, "a/b/x.go": true, "top": true, "a/top": false, "a/x.c": true, "b/a/x.c": false, "dir": false, "dir/": true, "a/dir/": true,
	} {
		name, isDir := strings.CutSuffix(path, "/")
		if got := set.Match(name, isDir); got != want {
			t.Errorf("%q: %v, want %v", path, got, want)
		}
	}
	var none Set
	if none.Match("x", false) || !none.Empty() || set.Empty() {
		t.Error("the zero set matches something, or a set with globs is empty")
	}
}

// FuzzMatcher compares a matcher, which goes from name to name, with doublestar on
// the whole path. It also compares which patterns the two accept.
func FuzzMatcher(f *testing.F) {
	paths := []string{"a", "b", "ab", "a.b", ".a", "d/a", "d/b", "d/d/a", "d/d/ab", "d/.d/a", "d/[a]", "d/{a}", `d/a\b`, "e/d/b/a", "e/-", "é/a", "a b", "*", "\xff/a"}
	for _, seed := range []string{"*", "**", "**/a", "d/**/a*", "{a,d/b}", "d/[!a]", "[^d]/d", "e[/]d", `d/\[a\]`, "*/**/?", "{**/,}a", "d/{a/**/,d}", "x{a,b", "***/a", "a**", "**a/*", "\xff/*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Count(pattern, "{")+strings.Count(pattern, "*") > 12 || len(pattern) > 60 {
			return // doublestar itself takes exponential time here
		}
		valid := pattern != "" && doublestar.ValidatePattern(pattern) && !strings.Contains(pattern, "\x00") && countAlternatives(pattern) <= maxPatterns
		if err := Check(pattern); (err == nil) != valid {
			t.Fatalf("%q: the error is %v, but doublestar says %v", pattern, err, valid)
		}
		if !valid || strings.HasSuffix(pattern, "/") {
			return
		}
		dir, rest := Split(pattern)
		if dir != "" || rest == "" {
			return // other paths are not relative to the directory
		}
		for _, path := range paths {
			if got, want := matchedByName(rest, path), Match(pattern, path); got != want {
				t.Errorf("pattern %q, path %q: %v, but doublestar says %v", pattern, path, got, want)
			}
		}
	})
}

// matchedByName lets a matcher go through a path name by name.
func matchedByName(pattern, path string) bool {
	m := NewMatcher(pattern, false)
	state := m.Start()
	for name := range strings.SplitSeq(path, "/") {
		if state == nil || !state.Descends() {
			return false
		}
		state, _ = m.Step(state, name)
	}
	return state != nil && m.Accepts(state, path)
}
