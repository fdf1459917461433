package fsops

import (
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// TestGlobEqualsDoublestarMatch compares Glob with doublestar on every path of a
// tree, for patterns that use all of its syntax.
func TestGlobEqualsDoublestarMatch(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a", "b", "ab", "a.b", ".a", "d/a", "d/b", "d/a.b", "d/d/a", "d/d/ab", "d/.d/a", "d/[a]", "d/{a}", "d/a\\b", "e/d/b/a", "e/-", "é/a", "a b", "*", "e/d/d/d/a.b", "\xff/a")
	paths := realPaths(t, f)
	pieces := []string{"a", "b", "d", "e", ".", "*", "*", "?", "**", "/", "/", "/", "**/", "/**", "[ab]", "[!a]", "[a-d]", "{a,b}", "{d,e/d}", "{*.b,a}", "{**/,}", "\\a", "é", "\xff"}
	rnd := rand.New(rand.NewPCG(9, 10))
	compared := 0
	for compared < 5000 {
		var b strings.Builder
		for range 1 + rnd.IntN(6) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		pattern := b.String()
		base, rest := "", ""
		if doublestar.ValidatePattern(pattern) {
			base, rest = globs.Split(pattern)
		}
		if rest == "" || strings.HasSuffix(pattern, "/") || base != "" && (base == "./" || base != filepath.Clean(base)+"/") || strings.Contains(base, "..") || filepath.IsAbs(base) {
			continue // Match knows nothing about these
		}
		compared++
		var want []string
		for _, p := range paths {
			if globs.Match(pattern, p) {
				want = append(want, p)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, inOrder(t, f, pattern, GlobOptions{Sort: GlobByName})); diff != "" {
			t.Errorf("pattern %q: Match (-) and Glob (+) disagree:\n%s", pattern, diff)
		}
	}
}

// TestGlobEqualsFd compares Glob with fd where fd's globs and doublestar's mean the
// same.
func TestGlobEqualsFd(t *testing.T) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	f := New(filepath.Join(strings.TrimSpace(string(goroot)), "src"))
	for pattern, args := range map[string][]string{
		"**/*.go":             {"--glob", "*.go"},
		"**/*_test.{go,s}":    {"--glob", "*_test.{go,s}"},
		"**/[a-c]*":           {"--glob", "[a-c]*"},
		"**/testdata/**/*.go": {"--full-path", "--glob", "**/testdata/**/*.go"},
		"**/":                 {"--type", "d"},
	} {
		cmd := exec.Command("fdfind", append([]string{"--unrestricted", "--case-sensitive", "--print0", "--strip-cwd-prefix"}, args...)...)
		cmd.Dir = f.Workdir()
		out, err := cmd.Output()
		if err != nil {
			t.Fatal("this test compares with fd (fdfind), which failed: ", err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		for i := range want {
			want[i] = strings.TrimSuffix(want[i], "/")
		}
		slices.Sort(want)
		got := inOrder(t, f, pattern, GlobOptions{Sort: GlobByName})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: fd (-) and Glob (+) disagree:\n%s", pattern, diff)
		}
	}
}
