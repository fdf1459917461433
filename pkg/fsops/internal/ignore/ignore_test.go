package ignore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestAsterisksInsideOfNamesAreRegular(t *testing.T) {
	rules := Parse([]byte("a**/b\nx/foo**\n"))
	for path, want := range map[string]Decision{
		"a/b": Ignore, "ac/b": Ignore, "a/c/b": Undecided, "x/foobar": Ignore, "x/foo/bar": Undecided,
	} {
		if got := rules.Match(path, false); got != want {
			t.Errorf("%q: decision %v, want %v", path, got, want)
		}
	}
}

func TestOpenStopsAtTheRepositoryRoot(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/.gitignore", "a\n")
	write(t, top+"/repo/.gitignore", "b\n")
	write(t, top+"/repo/.git/HEAD", "")
	write(t, top+"/repo/sub/.gitignore", "c\n")
	d, err := Open(top+"/repo/sub", top)
	if err != nil {
		t.Fatal(err)
	}
	if d.Ignored("a", false) || !d.Ignored("b", false) || !d.Ignored("c", false) {
		t.Error("these are not the rules from the repository's root on")
	}
}

func TestOpenOutsideOfRepositoriesBeginsAtTop(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/.gitignore", "a\n")
	write(t, top+"/tree/.gitignore", "/sub/b\n")
	write(t, top+"/tree/sub/x", "")
	for _, test := range []struct {
		top  string
		a, b bool
	}{
		{top, true, true},
		{top + "/tree", false, true},
		{top + "/tree/sub", false, false},
		{top + "/wor", false, false},
	} {
		d, err := Open(top+"/tree/sub", test.top)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := d.Ignored("a", false), d.Ignored("b", false); a != test.a || b != test.b {
			t.Errorf("top %s: a %v, b %v, want %v, %v", test.top, a, b, test.a, test.b)
		}
	}
}

func TestNestedRepositoryHasItsOwnRules(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/.git/HEAD", "")
	write(t, top+"/.gitignore", "a\n")
	write(t, top+"/inner/.git/HEAD", "")
	d, err := Open(top, top)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := d.Child("inner")
	if err != nil {
		t.Fatal(err)
	}
	if !d.Ignored("a", false) || inner.Ignored("a", false) {
		t.Error("the outer repository's rules hold in the inner one, or not in the outer")
	}
}

// A .gitignore that is a symbolic link or a FIFO is not read: a link could lead
// anywhere, and a FIFO would block.
func TestRulesComeFromRegularFilesOnly(t *testing.T) {
	top := t.TempDir()
	write(t, top+"/elsewhere", "a\n")
	if err := os.MkdirAll(top+"/fifo", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("elsewhere", top+"/.gitignore"), syscall.Mkfifo(top+"/fifo/.gitignore", 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{top, top + "/fifo"} {
		if d, err := Open(dir, dir); err != nil || d.Ignored("a", false) {
			t.Errorf("%s: error %v, or rules where there are none", dir, err)
		}
	}
}

func TestPatternsDoNotExplode(t *testing.T) {
	rules := Parse([]byte("**/" + strings.Repeat("*a", 40) + "b\n/" + strings.Repeat("**/*a", 30) + "b\n"))
	path := strings.Repeat("aaaaaaaa/", 200) + "c"
	if v := rules.Match(path, false); v != Undecided {
		t.Errorf("decision %v", v)
	}
}

// Each rule that no table finds is part of what rules take of a budget, and others are not.
func TestCostOfWildcards(t *testing.T) {
	for text, want := range map[string]int{
		"a\n/b/\nc/d\n*.o\n!*.o/\n**/*.o\n**/x\n\\*x\n# *a*\n\n":                       1, // an asterisk in quotes counts
		"*a*\n!a?\n/[a]/\n*.tar.gz\n/*.o\nx/*.o\n**/a/b\na/**\n*~\n":                   9,
		strings.Repeat("?", wildSize) + "\n/" + strings.Repeat("?", wildSize+1) + "\n": 3,
	} {
		if got := costOf([]byte(text)).wild; got != want {
			t.Errorf("%q takes %d, want %d", text, got, want)
		}
	}
	if got := costOf([]byte(usualRules)).wild; got > 100 {
		t.Errorf("usual rules take %d", got)
	}
}

func TestTwoAsterisksWithTextBetweenThem(t *testing.T) {
	rules := Parse([]byte("a*bc*cd\n/x/*y*/z\n/t*\n"))
	for path, want := range map[string]Decision{
		"abccd": Ignore, "a-bc-cd": Ignore, "abcd": Undecided, "d/abc/cd": Undecided, "x/y/z": Ignore, "x/-y-/z": Ignore,
		"x/-/z": Undecided, "x/y/y/z": Undecided, "t": Ignore, "ty": Ignore, "t/y": Undecided,
	} {
		if got := rules.Match(path, false); got != want {
			t.Errorf("%q: decision %v, want %v", path, got, want)
		}
	}
}

// A long pattern that matches at almost every place until its end decides as any other does.
// BenchmarkLongPattern shows that it is not compared at each of them.
func TestLongPatternThatAlmostMatchesEverywhere(t *testing.T) {
	rules := Parse([]byte(longPattern))
	for end, want := range map[string]Decision{"": Undecided, "b": Ignore} {
		if got := rules.Match(strings.Repeat("a", 4000)+end, false); got != want {
			t.Errorf("with %q at its end: decision %v, want %v", end, got, want)
		}
	}
}

func FuzzIgnore(f *testing.F) {
	f.Add("*.c\n!a.c\n/x/**/y/\n[a-z]?\\ \n", "x/a/y")
	f.Add("[[:alpha:]-z]\n[\n\\", "-")
	f.Fuzz(func(t *testing.T, text, path string) {
		rules := Parse([]byte(text))
		if c := costOf([]byte(text)); c.wild < len(rules.index.rest) {
			t.Errorf("%q takes %+v, but has %d rules that no table finds", text, c, len(rules.index.rest))
		}
		if rules.Match(path, false) == Ignore && rules.Match(path, true) == Undecided {
			t.Errorf("%q ignores %q only if it is no directory", text, path)
		}
		// The last rule is the path itself, quoted, and so it decides.
		if path == "" || strings.ContainsAny(path, "\n\r\x00") || strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
			return
		}
		var quoted strings.Builder
		for i := range len(path) {
			if path[i] != '/' {
				quoted.WriteByte('\\')
			}
			quoted.WriteByte(path[i])
		}
		if v := Parse([]byte(text+"\n/"+quoted.String())).Match(path, false); v != Ignore {
			t.Errorf("the rule /%s does not ignore %q", quoted.String(), path)
		}
	})
}
