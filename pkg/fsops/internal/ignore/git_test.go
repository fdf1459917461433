package ignore

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// withoutUser hides the user's configuration from the test and from git, and checks
// that git is installed. It returns the user's new home.
func withoutUser(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("this test compares with git, which is not installed: ", err)
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	return home
}

// repo is a git work tree, and paths to check with git.
type repo struct {
	t     testing.TB
	dir   string
	paths []string // files and directories, which need not exist
	args  []string // git's first arguments
}

// newRepo makes a repository with the given files. A name with a trailing slash
// makes a directory.
func newRepo(t testing.TB, files ...string) *repo {
	t.Helper()
	withoutUser(t)
	r := &repo{t: t, dir: t.TempDir()}
	r.git("init", "-q", "-b", "main")
	for _, file := range files {
		path := filepath.Join(r.dir, file)
		dir := filepath.Dir(path)
		if strings.HasSuffix(file, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "/") {
			r.write(file, "")
		}
	}
	r.paths = r.list()
	return r
}

func (r *repo) list() []string {
	var paths []string
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(r.dir, path)
		if d.Name() == ".git" {
			return fs.SkipDir
		}
		if rel != "." {
			paths = append(paths, rel)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return paths
}

func (r *repo) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o666); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) git(args ...string) []byte {
	r.t.Helper()
	cmd := exec.Command("git", append(r.args, args...)...)
	cmd.Dir = r.dir
	cmd.Stdin = strings.NewReader("./" + strings.Join(r.paths, "\x00./") + "\x00") // a name such as ":" has a special meaning for git
	out, err := cmd.Output()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 1 && args[0] == "check-ignore" {
		err = nil // 1 means that nothing is ignored
	}
	if err != nil {
		r.t.Fatalf("git %q: %v", args, err)
	}
	return out
}

// ignoredByGit returns the paths that git ignores, including everything below an
// ignored directory.
func (r *repo) ignoredByGit() []string {
	var ignored []string
	for path := range bytes.SplitSeq(r.git("check-ignore", "--no-index", "-z", "--stdin"), []byte{0}) {
		if len(path) > 0 {
			ignored = append(ignored, string(path[len("./"):]))
		}
	}
	slices.Sort(ignored)
	return ignored
}

// ignoredByUs returns the same from this package.
func (r *repo) ignoredByUs() []string {
	r.t.Helper()
	root, err := open(r.dir, r.dir, gitFiles)
	if err != nil {
		r.t.Fatal(err)
	}
	dirs := map[string]*Dir{".": root} // nil for an ignored directory
	ignored := []string{}
	for _, path := range r.paths {
		parent := r.enter(dirs, filepath.Dir(path))
		info, err := os.Lstat(filepath.Join(r.dir, path))
		if parent == nil || parent.Ignored(filepath.Base(path), err == nil && info.IsDir()) {
			ignored = append(ignored, path)
		}
	}
	slices.Sort(ignored)
	return ignored
}

func (r *repo) enter(dirs map[string]*Dir, path string) *Dir {
	d, known := dirs[path]
	if known {
		return d
	}
	if parent := r.enter(dirs, filepath.Dir(path)); parent != nil && !parent.Ignored(filepath.Base(path), true) {
		var err error
		if d, err = parent.Child(filepath.Base(path)); err != nil {
			r.t.Fatal(err)
		}
	}
	dirs[path] = d
	return d
}

func (r *repo) compare(what string) {
	r.t.Helper()
	if diff := cmp.Diff(r.ignoredByGit(), r.ignoredByUs(), cmp.Transformer("empty", func(s []string) string {
		return fmt.Sprintf("%q", s)
	})); diff != "" {
		r.t.Errorf("%s: git (-) and we (+) disagree:\n%s", what, diff)
	}
}

func TestIgnoreEqualsGitCheckIgnoreInHardCases(t *testing.T) {
	r := newRepo(
		t,
		"foo", "foo.c", "foobar", "foo ", "foo  ", "bar", "Bar", "#foo", "!foo", "a b", `a\b`, "a*b", "a?b", "a[b", "[", "]", "-", "^", "!", ":", "a]b",
		"dir/foo", "dir/bar/foo", "dir/bar/baz/foo", "dir/sub/x.c", "dir/sub/y.h", "dir/.hidden", "dir ", "x/y/z/w", "x/foo/y/foo",
		"build/out.o", "build/keep.o", "src/build/out.o", "src/foo/", "empty/", "abc", "abbc", "ac", "a/b", "a/c/b", "a/c/d/b", "ab", "b",
		"\xff\xfe", "\xc3\xa9", "new\nline", "tab\t", "punct~", "under_score", "0", "9", "A", "Z", "z", "\x01", "\x7f", "\x0b", "foo\r", "q/**", `q/\`, "f{a,b}", "**",
	)
	cases := []string{
		"foo", "foo/", "/foo", "/foo/", "foo/bar", "dir/foo", "/dir/foo", "dir/", "dir/*", "dir/**", "dir/**/", "**/foo", "**/foo/", "/**/foo", "dir/**/foo", "**",
		"**/", "/**", "*", "*/", "/*", "/*/", "*/*", "**/*", "*/**", "***", "***/foo", "**foo", "foo**", "fo**o", "*.c", "*.[ch]", "f*", "*o", "?oo", "???", "x/*/z", "x/**/w", "x/**/z/**/w",
		"*\n!foo", "*\n!*/\n!*.c", "/*\n!/dir\n/dir/*\n!/dir/bar", "dir\n!dir/foo", "dir/*\n!dir/foo", "!foo", "foo\n!foo\nfoo", "build/\n!build/keep.o", "build/*\n!build/keep.o",
		"foo ", "foo  ", `foo\ `, `foo\  `, `foo\ \ `, ` foo`, `foo \`, `foo\`, `\foo`, `\f\o\o`, `\#foo`, "#foo", `\!foo`, "!", "!!foo", "/", "//", "//foo", "foo//", "dir//foo", "",
		"a b", `a\b`, `a\\b`, `a\*b`, `a\?b`, "a*b", "a?b", "a[*]b", "a[?]b", `a\[b`, "a[[]b", "[", "[]", "[]]", "[]a]", "[!]]", "[^]]", "[!a-y]", "[^a-y]*", "[a", "[a-", "[a-]", "[a-z", "[-a]", "[--0]", "[z-a]", `[\]]`, `[\-]`, `[a\-z]`, `[\a-\c]`, "[a]b", `[\`, `[[]`, `[[:]`, `[[:]]`, `[[:alpha:]]`, `[[:foo:]]`, `[[:alpha:]-z]`, `[[:alpha]`, `[[:alpha:`, `[![:alnum:]]`,
		"[[:punct:]]", "[[:space:]]", "foo[[:space:]]", "[[:cntrl:]]", "[[:print:]]", "[[:graph:]]", "[[:blank:]]", "[[:upper:]]", "[[:lower:]]", "[[:xdigit:]]", "[[:digit:]]", "[[:alnum:][:punct:]]", "tab[[:blank:]]",
		"a/*/b", "a/**/b", "a**b", "a/**b", "dir/*/foo", "dir/*/*/foo", "dir?foo", "dir[/]foo", "dir[!a]foo", `dir\/foo`, `**\/foo`, `dir/**\/foo`, "./foo", "../foo", "dir/./foo", "dir/../foo",
		"foo\r\nbar\r\n", "foo\r", "foo\r\r\n", "\r\nfoo", "foo\r\n\r\n#bar\r\n", utf8BOM + "foo\nbar", utf8BOM + "#foo\nbar", utf8BOM + utf8BOM + "foo", "foo\x00bar", "foo\n\n\nbar", "foo\t", "\xff*", "?\xfe", "\xc3?", "??", "new?line", "f{a,b}", "{foo,bar}", "FOO", "q/\\*\\*", "q/**", `q/\\`, "*/sub/*", "sub/*.c", "/sub", "b[!x]z", "*a*b*c*", "a*c", "a**c", "ab*c", "**/bar/**", "**/bar/**/foo", "dir/**/**/foo", "dir/**/*", "**/*/foo",
		"/dir/bar/", "dir/bar/\n!dir/bar/baz", "dir/**\n!dir/**/\n!dir/sub/x.c", "*\n!/dir/\n!/dir/sub/\n!/dir/sub/*.c", "   ", "\\ ", `\`, `foo\\`, "foo\\\\ ",
	}
	for _, text := range cases {
		r.write(".gitignore", text)
		r.compare(fmt.Sprintf(".gitignore %q", text))
	}
}

func TestIgnoreEqualsGitCheckIgnoreWithNestedFiles(t *testing.T) {
	r := newRepo(t, "a", "sub/a", "sub/b", "sub/deep/a", "sub/deep/c", "sub/deep/d/e", "other/a", "other/deep/a", "skip/a", "skip/b",
		".gitignore", "sub/.gitignore", "sub/deep/.gitignore", "skip/.gitignore")
	for _, files := range []map[string]string{
		{".gitignore": "a", "sub/.gitignore": "!a"},
		{".gitignore": "/sub/a", "sub/.gitignore": "deep/"},
		{".gitignore": "*", "sub/.gitignore": "!*"},
		{".gitignore": "skip/", "skip/.gitignore": "!a\n!b"},
		{".gitignore": "skip/*", "skip/.gitignore": "!a"},
		{"sub/.gitignore": "/a\n/deep/*\n!/deep/c", "sub/deep/.gitignore": "c"},
		{"sub/.gitignore": "*\n!deep", "sub/deep/.gitignore": "!*\ne"},
		{".gitignore": "deep/d", "sub/.gitignore": "!deep/d/e"},
		{".gitignore": "sub/deep/d", "sub/.gitignore": "!deep/d", "sub/deep/.gitignore": "d/e"},
		{".git/info/exclude": "a\nc", "sub/.gitignore": "!a", ".gitignore": "!/a"},
		{".git/info/exclude": "/sub/deep", "sub/.gitignore": "!deep"},
		{".git/info/exclude": "sub/a\n!sub/b", ".gitignore": "b"},
	} {
		for _, name := range []string{".gitignore", "sub/.gitignore", "sub/deep/.gitignore", "skip/.gitignore", ".git/info/exclude"} {
			r.write(name, files[name])
		}
		r.compare(fmt.Sprintf("files %q", files))
	}
}

// glued matches a pattern in which two asterisks directly follow a literal
// beginning, without a slash. gitignore(5) and this package treat them as regular
// asterisks. git before 2.53 let them match slashes, because it cut off the literal
// beginning first.
var glued = regexp.MustCompile(`(?m)^!?/?[^*?\[\\\n]*[^*?\[\\\n/!]\*\*`)

func TestIgnoreEqualsGitCheckIgnoreForGeneratedRules(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "ab", "c", "*", "**", "?", "/", "/", "**/", "/**", "/*/", "[ab]", "[!a]", "[a-b]", "[^b]", `\a`, `\*`, "."}
	pattern := func() string {
		var p strings.Builder
		if rnd.IntN(4) == 0 {
			p.WriteByte('!')
		}
		for range 1 + rnd.IntN(6) {
			p.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		return p.String()
	}
	text := func() string {
		var lines []string
		for range 1 + rnd.IntN(8) {
			if p := pattern(); !glued.MatchString(p) {
				lines = append(lines, p)
			}
		}
		return strings.Join(lines, "\n")
	}
	r := newRepo(t, "a/a/a", "a/a/b", "a/b/ab", "a/b/c", "a/ab", "a/c", "b/a", "b/b/a/b", "b/ab/c", "b/c/c/", "ab/a", "ab/ab/b", "ab/b", "c", "abc", "*", "a.b", ".a", "b/.gitignore")
	for range 500 {
		top, nested := text(), text()
		r.write(".gitignore", top)
		r.write("b/.gitignore", nested)
		r.compare(fmt.Sprintf(".gitignore %q, b/.gitignore %q", top, nested))
		if t.Failed() {
			return
		}
	}
}
