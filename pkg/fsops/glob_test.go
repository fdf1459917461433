package fsops

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podagent/podagent/pkg/fsops/internal/globs"
)

// globbed returns the sorted paths that match, and whether there are more.
func globbed(t testing.TB, f *FS, pattern string, opts GlobOptions) (paths []string, truncated bool) {
	t.Helper()
	var stats GlobStats
	opts.Stats = &stats
	for m, err := range f.Glob(t.Context(), pattern, opts) {
		if err != nil {
			t.Fatalf("glob %q: %v", pattern, err)
		}
		paths = append(paths, m.Path)
	}
	if stats.Matches != int64(len(paths)) {
		t.Errorf("glob %q: %d matches, and %d by the stats", pattern, len(paths), stats.Matches)
	}
	slices.Sort(paths)
	return paths, stats.Truncated
}

func wantGlob(t testing.TB, f *FS, pattern string, opts GlobOptions, want ...string) {
	t.Helper()
	got, _ := globbed(t, f, pattern, opts)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("glob %q %+v: %q, want %q", pattern, opts, got, want)
	}
}

func TestGlobMatchesAsDoublestarDoes(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a.go", "b.md", "src/c.go", "src/deep/d.go", "src/deep/e.txt", ".hidden/f.go", "x[1].go", "{y}.go")
	for pattern, want := range map[string][]string{
		"*.go":            {"a.go", "x[1].go", "{y}.go"},
		"**/*.go":         {"a.go", "x[1].go", "{y}.go", "src/c.go", "src/deep/d.go", ".hidden/f.go"},
		"src/*":           {"src/c.go", "src/deep"},
		"src/**":          {"src", "src/c.go", "src/deep", "src/deep/d.go", "src/deep/e.txt"},
		"./src/./*.go":    {"src/c.go"},
		"src/../*.md":     {"b.md"},
		"{src,x}/**/*.go": {"src/c.go", "src/deep/d.go"},
		"{a.go,src/c.*}":  {"a.go", "src/c.go"},
		"src/{deep/d,c}.go": {
			"src/deep/d.go", "src/c.go",
		},
		"s?c/[a-c].go":    {"src/c.go"},
		"[!ab]*":          {"src", "x[1].go", "{y}.go", ".hidden"},
		"src/[!d]*":       {"src/c.go"},
		`x\[1\].go`:       {"x[1].go"},
		`x[\[]1].go`:      {"x[1].go"},
		`\{y\}.*`:         {"{y}.go"},
		"src/":            {"src"},
		"a.go/":           nil,
		"*/":              {"src", ".hidden"},
		"**/":             {"src", "src/deep", ".hidden"},
		"**/deep/../*.go": nil,
		"nothing/**":      nil,
		"a.go/*":          nil,
		".":               {"."},
	} {
		wantGlob(t, f, pattern, GlobOptions{}, want...)
	}
}

func TestGlobStartsInDir(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "sub/a.go", "sub/deep/b.go", "c.go")
	wantGlob(t, f, "**/*.go", GlobOptions{Dir: "sub"}, "a.go", "deep/b.go")
	wantGlob(t, f, "../*.go", GlobOptions{Dir: "sub"}, "../c.go")
	wantGlob(t, f, at(f, "sub/*.go"), GlobOptions{Dir: "missing"}, at(f, "sub/a.go"))
	missing := onlyError(t, f.Glob(t.Context(), "*", GlobOptions{Dir: "missing"}))
	wantPathError(t, missing, "glob", "missing", fs.ErrNotExist)
	notDir := onlyError(t, f.Glob(t.Context(), "*", GlobOptions{Dir: "c.go"}))
	wantPathError(t, notDir, "glob", "c.go", syscall.ENOTDIR)
}

func TestGlobShellSyntaxIsLiteral(t *testing.T) {
	f := newTestFS(t)
	name := "$(touch pwned) `x` ; a b & $HOME ~ 'q' \"r\".txt"
	makeTree(t, f, name)
	wantGlob(t, f, "$(touch pwned)*.txt", GlobOptions{}, name)
	wantGlob(t, f, "*; a b & $HOME ~ 'q' \"r\".txt", GlobOptions{}, name)
	wantGlob(t, f, name, GlobOptions{}, name)
	wantGlob(t, f, "/tmp/$(rm -rf /).txt", GlobOptions{})
	wantGlob(t, f, "-rf", GlobOptions{})
	wantNames(t, f.Workdir(), name)
}

func TestGlobMissingLiteralAndDanglingLink(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "dir/dangling -> nowhere", "file")
	wantGlob(t, f, "dir/dangling", GlobOptions{}, "dir/dangling")
	wantGlob(t, f, "dir/*", GlobOptions{}, "dir/dangling")
	wantGlob(t, f, "dir/missing", GlobOptions{})
	wantGlob(t, f, "missing/file", GlobOptions{})
	wantGlob(t, f, "file/below", GlobOptions{})
	wantGlob(t, f, strings.Repeat("x", 300), GlobOptions{})
	for m, err := range f.Glob(t.Context(), "dir/dangling", GlobOptions{}) {
		if err != nil || m.Type != fs.ModeSymlink {
			t.Errorf("type %v, error %v", m.Type, err)
		}
	}
}

func TestGlobNamesOfAnyBytes(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "new\nline.c", "\xff.c", "\xfe.c", "\xff\xfe/\xfd", "é.c")
	wantGlob(t, f, "*.c", GlobOptions{}, "new\nline.c", "\xff.c", "\xfe.c", "é.c")
	wantGlob(t, f, "\xff.*", GlobOptions{}, "\xff.c")
	wantGlob(t, f, "?.c", GlobOptions{}, "\xff.c", "\xfe.c", "é.c")
	wantGlob(t, f, "\xff\xfe/*", GlobOptions{}, "\xff\xfe/\xfd")
	wantGlob(t, f, "*\nline*", GlobOptions{}, "new\nline.c")
}

func TestGlobInvalidPattern(t *testing.T) {
	f := newTestFS(t)
	for pattern, offset := range map[string]int{
		"a/[b": 2, "[]": 0, "a{b,{c}": 1, "a}": 1, `a\`: 1, "": 0, "a\x00b": 1, "{[}": 1,
		strings.Repeat("{a,aa}", 17): -1, strings.Repeat("{a,{b,c}}", 11): -1,
		strings.Repeat("{", 1<<20): 64 << 10,
	} {
		results := 0
		for _, err := range f.Glob(t.Context(), pattern, GlobOptions{}) {
			results++
			var bad *PatternError
			if !errors.Is(err, syscall.EINVAL) || !errors.As(err, &bad) {
				t.Fatalf("%q: error is %v", pattern, err)
			}
			if bad.Offset != offset || bad.Pattern != pattern {
				t.Errorf("%q: offset %d in %q, want %d (%v)", pattern, bad.Offset, bad.Pattern, offset, err)
			}
		}
		if results != 1 {
			t.Errorf("%q: %d results, want the error alone", pattern, results)
		}
	}
}

func TestGlobSymlinksAreFollowedByNameOnly(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "real/file", "link -> real", "loop/self -> .", "loop/x")
	wantGlob(t, f, "**", GlobOptions{}, "real", "real/file", "link", "loop", "loop/self", "loop/x")
	wantGlob(t, f, "**/file", GlobOptions{}, "real/file")
	wantGlob(t, f, "link/*", GlobOptions{}, "link/file")
	wantGlob(t, f, "l?nk/*", GlobOptions{}, "link/file")
	wantGlob(t, f, "link/**", GlobOptions{}, "link", "link/file")
	wantGlob(t, f, "**/self/**/x", GlobOptions{}, "loop/self/x")
	wantGlob(t, f, "l*/", GlobOptions{}, "link", "loop")
}

func TestGlobNoHidden(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a", ".b", ".c/d", ".c/.e", "f/.g", "f/h")
	opts := GlobOptions{NoHidden: true}
	wantGlob(t, f, "*", opts, "a", "f")
	wantGlob(t, f, "**", opts, "a", "f", "f/h")
	wantGlob(t, f, ".*", opts, ".b", ".c")
	wantGlob(t, f, ".c/*", opts, ".c/d")
	wantGlob(t, f, "**/.*", opts, ".b", ".c", "f/.g")
	wantGlob(t, f, "{.b,a}", opts, ".b", "a")
	wantGlob(t, f, "[.]b", opts)
}

func TestGlobIgnore(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, ".git/HEAD", "a.o", "a.c", "out/b.c", "sub/c.o", "sub/keep.o", "sub/deep/d.o")
	put(t, f, ".gitignore", "*.o\n/out/\n")
	put(t, f, "sub/.gitignore", "!keep.o\n")
	opts := GlobOptions{Ignore: true}
	wantGlob(t, f, "**", opts, ".gitignore", "a.c", "sub", "sub/.gitignore", "sub/keep.o", "sub/deep")
	wantGlob(t, f, "sub/*.o", opts, "sub/keep.o")
	wantGlob(t, f, "*.o", GlobOptions{Ignore: true, Dir: "sub"}, "keep.o")
	wantGlob(t, f, at(f, "sub/*.o"), opts, at(f, "sub/keep.o"))
	wantGlob(t, f, "out/b.c", opts)
	wantGlob(t, f, "out/*", opts)
	wantGlob(t, f, ".git/*", opts)
	wantGlob(t, f, "**/*.o", GlobOptions{}, "a.o", "sub/c.o", "sub/keep.o", "sub/deep/d.o")
}

func TestGlobIgnoresAsRipgrepDoes(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", home)
	must(t, os.MkdirAll(home+"/git", 0o777))
	must(t, os.WriteFile(home+"/git/ignore", []byte("user\n"), 0o666))
	f := newTestFS(t)
	makeTree(t, f, "user", "dot", "git", "rip", "kept", "sub/kept", "sub/user", "sub/info", "info", "sub/x")
	put(t, f, ".gitignore", "git\nkept\n")
	put(t, f, ".ignore", "dot\n!kept\nsub/x\n")
	put(t, f, ".rgignore", "rip\n")
	must(t, os.MkdirAll(at(f, ".git/info"), 0o777))
	put(t, f, ".git/info/exclude", "info\n")
	wantGlob(t, f, "**", GlobOptions{Ignore: true}, ".gitignore", ".ignore", ".rgignore", "kept", "sub", "sub/kept")
	wantGlob(t, f, "sub/*", GlobOptions{Ignore: true}, "sub/kept")
	wantGlob(t, f, "*", GlobOptions{Ignore: true, Dir: "sub"}, "kept")
}

func TestGlobReportsTruncation(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a", "b", "c")
	for limit, want := range map[int]struct {
		n    int
		more bool
	}{0: {3, false}, 1: {1, true}, 2: {2, true}, 3: {3, false}, 4: {3, false}} {
		got, more := globbed(t, f, "*", GlobOptions{Limit: limit})
		if len(got) != want.n || more != want.more {
			t.Errorf("limit %d: %d results, truncated %v", limit, len(got), more)
		}
	}
}

func TestGlobEndsWithItsCaller(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "a", "b", "c/d")
	for range f.Glob(t.Context(), "**", GlobOptions{}) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range f.Glob(ctx, "**", GlobOptions{}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("error is %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d results after the end of the context", n)
	}
}

func TestGlobManyAlternatives(t *testing.T) {
	f := newTestFS(t)
	makeTree(t, f, "abababababab", "x/babababababa", "c")
	pattern := strings.Repeat("{a,b}", 12)
	wantGlob(t, f, pattern, GlobOptions{}, "abababababab")
	wantGlob(t, f, "**/"+pattern+"{,a}", GlobOptions{}, "abababababab", "x/babababababa")
}

// realPaths lists everything below the workdir, including directories and links.
func realPaths(t testing.TB, f *FS) (paths []string) {
	must(t, filepath.WalkDir(f.Workdir(), func(p string, _ fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(f.Workdir(), p); rel != "." {
			paths = append(paths, rel)
		}
		return err
	}))
	return paths
}

func FuzzGlob(f *testing.F) {
	fsys := newTestFS(f)
	makeTree(f, fsys, "a", "b", "ab", "a.b", ".a", "d/a", "d/b", "d/d/a", "d/d/ab", "d/.d/a", "d/[a]", "d/{a}", "d/a\\b", "e/d/b/a", "e/-", "é/a", "a b", "*")
	paths := realPaths(f, fsys)
	for _, seed := range []string{"*", "**", "**/a", "d/**/a*", "{a,d/b}", "d/[!a]", "[^d]/d", "e[/]d", `d/\[a\]`, "*/**/?", "{**/,}a", "d/{a/**/,d}", "x{a,b", "***/a", "a**", "**a/*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, pattern string) {
		if strings.Count(pattern, "{")+strings.Count(pattern, "*") > 12 || len(pattern) > 60 {
			return // doublestar itself takes exponential time here
		}
		valid := globs.Check(pattern) == nil
		base, rest := "", ""
		if valid {
			base, rest = globs.Split(pattern)
		}
		if strings.HasPrefix(base, "/") || strings.Contains(base, "..") {
			return // it leads out of the tree
		}
		var got []string
		for m, err := range fsys.Glob(context.Background(), pattern, GlobOptions{Sort: GlobByName}) {
			if err != nil && valid || err == nil && !valid {
				t.Fatalf("pattern %q, valid %v: error %v", pattern, valid, err)
			}
			got = append(got, m.Path)
		}
		if !valid || rest == "" || base != "" && (base == "./" || base != path.Clean(base)+"/") || strings.HasSuffix(pattern, "/") {
			return // Match knows nothing about these
		}
		var want []string
		for _, p := range paths {
			if globs.Match(pattern, p) {
				want = append(want, p)
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pattern %q: Match (-) and Glob (+) disagree:\n%s", pattern, diff)
		}
	})
}
