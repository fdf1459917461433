//go:build unix && !race

package fsops

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unicode/utf16"
)

// An rgKind is a kind of generated texts, and of patterns for them.
type rgKind struct {
	name  string
	words []string
	ends  []string // line ends
	// atoms are the parts of patterns.
	atoms []string
	// ascii says that Word is compared, too.
	ascii bool
	flags []string // for rg
}

var rgCommon = []string{"a", "b", "c", "ab", "foo", "bar", "Foo", "x1", "_", "0", `\.`, " ", "-", "[abc]", "[a-f0-9]", "[xyz_]", "[[:alpha:]]", "[[:upper:]]"}

var rgKinds = []rgKind{
	{
		name:  "ascii",
		words: []string{"a", "b", "c", "ab", "foo", "bar", "Foo", "BAR", "x1", "_", "0", "12", ".", " ", " ", "\t", "-", "foo_bar", "abcabc"},
		ends:  []string{"\n"},
		atoms: append([]string{".", "[^a]", "[^ -~]", `\w`, `\d`, `\s`, `\W`, `\D`, `\S`, `\b`, `\B`, `\t`}, rgCommon...),
		ascii: true,
	},
	{
		name:  "unicode",
		words: []string{"a", "b", "foo", "Foo", "é", "É", "日本", "k", "K", "\u212a", "ß", "σ", "ς", "Σ", "\U0001f600", " ", "-", "0"},
		ends:  []string{"\n"},
		atoms: append([]string{".", "[^a]", "[^é]", "é", "[à-ü]", "日", "k", "σ", `\pL`, `\p{Greek}`, `\PL`, "\U0001f600"}, rgCommon...),
	},
	{
		name:  "crlf",
		words: []string{"a", "b", "c", "foo", "bar", "Foo", "x1", " ", "0"},
		ends:  []string{"\r\n", "\r\n", "\n"},
		atoms: rgCommon,
		flags: []string{"--crlf"},
	},
	{
		name:  "invalid",
		words: []string{"a", "b", "foo", "bar", "\xff", "\xc3", "\xe6\x97", "é", " ", "0"},
		ends:  []string{"\n"},
		atoms: append([]string{"é"}, rgCommon...),
	},
}

// An rgGenerator makes trees and patterns, the same in each run.
type rgGenerator struct {
	*rand.Rand
	rgKind
}

func pick[T any](g *rgGenerator, of ...T) T { return of[g.IntN(len(of))] }

func (g *rgGenerator) oneIn(n int) bool { return g.IntN(n) == 0 }

// text returns some lines. The last one may lack its end.
func (g *rgGenerator) text() string {
	var text strings.Builder
	for range g.IntN(30) {
		for range g.IntN(6) {
			text.WriteString(pick(g, g.words...))
		}
		text.WriteString(pick(g, g.ends...))
	}
	if g.oneIn(3) {
		text.WriteString(pick(g, g.words...))
	}
	return text.String()
}

// pattern returns a regular expression of some depth.
func (g *rgGenerator) pattern(depth int) string {
	if depth == 0 {
		return pick(g, g.atoms...)
	}
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		return g.pattern(depth-1) + g.pattern(depth-1)
	case 4:
		return "(" + g.pattern(depth-1) + "|" + g.pattern(depth-1) + ")"
	case 5:
		return "(?:" + g.pattern(depth-1) + ")" + pick(g, "*", "+", "?", "*?", "+?", "{2}", "{1,3}", "{0,1}")
	case 6:
		return pick(g, "^", "(?i)", "(?:)") + g.pattern(depth-1)
	case 7:
		return g.pattern(depth-1) + "$"
	}
	return g.pattern(depth - 1)
}

// options returns random options of a search.
func (g *rgGenerator) options() GrepOptions {
	o := GrepOptions{
		SmartCase: g.oneIn(5), Word: g.ascii && g.oneIn(5), Report: pick(g, GrepLines, GrepLines, GrepFiles, GrepCounts),
		Hidden: g.oneIn(3), NoIgnore: g.oneIn(3), Follow: g.oneIn(4), Sort: g.oneIn(2),
	}
	o.IgnoreCase = !o.SmartCase && g.oneIn(4)
	o.Spans = o.Report == GrepLines && !o.Word
	if o.Report == GrepLines && g.oneIn(3) {
		o.Before, o.After = g.IntN(4), g.IntN(4)
	}
	if g.oneIn(5) {
		o.MaxPerFile = 1 + g.IntN(3)
	}
	if g.oneIn(4) {
		o.Exclude = []string{pick(g, "*.txt", "sub", "sub/*.md", "**/deep", "f?", "*.{go,md}", "[fg]*", "sub/", "/sub", "/f1.txt", "deep/", "/sub/deep/", "f1.txt/")}
	}
	if g.oneIn(5) {
		o.Include, o.NoIgnore, o.Hidden = []string{pick(g, "*.txt", "*.go", "sub/**", "**/deep/*", "f*")}, true, true
	}
	if g.oneIn(8) {
		o.Paths = pick(g, []string{"sub"}, []string{"f1.txt", "sub"}, []string{".hidden"}, []string{"link"}, []string{"sub/deep", "f2.go"})
		o.Include, o.Exclude = nil, nil // rg takes these from its own directory
	}
	return o
}

// search returns a random search.
func (g *rgGenerator) search() (string, GrepOptions) {
	opts := g.options()
	switch {
	case g.oneIn(8):
		opts.Fixed = true
		return strings.ToValidUTF8(pick(g, append(g.words, "a.b", "(", "a|b", "[", `\w`, "^a", "foo bar")...), "a"), opts
	case g.ascii && g.oneIn(8):
		opts.Multiline, opts.MaxPerFile, opts.Word = true, 0, false
		if opts.Report == GrepCounts {
			opts.Report = GrepFiles
		}
		return g.multiline(), opts
	}
	pattern := g.pattern(1 + g.IntN(4))
	opts.Word = opts.Word && !strings.Contains(pattern, `\B`)
	opts.Spans = opts.Spans && !strings.Contains(strings.ToLower(pattern), `\b`)
	return pattern, opts
}

// multiline returns a pattern whose matches may span lines.
func (g *rgGenerator) multiline() string {
	for {
		pattern := pick(g, "", "(?s)") + g.pattern(1) + pick(g, `\n`, `\s*`, `[^x]`, ".") + g.pattern(2)
		if !strings.Contains(pattern, "^") || !strings.Contains(strings.ToLower(pattern), `\b`) {
			return pattern
		}
	}
}

// tree makes a tree with everything that matters to a search.
func (g *rgGenerator) tree(t *testing.T) *FS {
	t.Helper()
	f := newTestFS(t)
	for _, dir := range []string{"", "sub/", "sub/deep/", "other/", ".hidden/", "sub/.dir/", "ignored/", "build/", "odd \xff/", ".git/"} {
		must(t, os.MkdirAll(at(f, dir), 0o777))
		for i := range 4 {
			put(t, f, fmt.Sprintf("%sf%d%s", dir, i, pick(g, ".txt", ".go", ".md", ".log", "")), g.text())
		}
	}
	put(t, f, "f1.txt", g.text())
	put(t, f, "f2.go", g.text())
	put(t, f, "empty", "")
	put(t, f, ".dot", g.text())
	put(t, f, "binary", "\x00"+g.text())
	put(t, f, "sub/mark.bom", string(utf8Mark)+g.text())
	put(t, f, "le", g.utf16(0, 1))
	put(t, f, "sub/be", g.utf16(1, 0))
	put(t, f, "name: 1:-\t", g.text())
	put(t, f, "new\nline", g.text())
	for _, dir := range []string{"", "sub/", "sub/deep/", "other/", "build/"} {
		for _, name := range []string{".gitignore", ".ignore"} {
			if g.oneIn(2) {
				put(t, f, dir+name, g.rules())
			}
		}
	}
	for link, target := range map[string]string{
		"link": "sub", "sub/up": "..", "other/file": "../f1.txt", "nowhere": "missing", "self": "self",
	} {
		must(t, os.Symlink(target, at(f, link)))
	}
	must(t, syscall.Mkfifo(at(f, "fifo"), 0o666))
	return f
}

// utf16 returns a text in UTF-16, with its byte order mark.
func (g *rgGenerator) utf16(low, high int) string {
	text := strings.ToValidUTF8(g.text(), "?")
	var out []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		var pair [2]byte
		pair[low], pair[high] = byte(unit), byte(unit>>8)
		out = append(out, pair[:]...)
	}
	return string(out)
}

// rules returns the content of a random ignore file.
func (g *rgGenerator) rules() string {
	var rules strings.Builder
	for range 1 + g.IntN(3) {
		rules.WriteString(pick(g,
			"*.log", "/build/", "ignored", "!f1.log", "deep/", "/sub/*.md", "!sub", "**/f2*", "f[01].go", "# comment", "", "*.txt\n!f0.txt", "sub/**/f3", ".dir", "!.dot", `\!x`, "other/*", "!other/f1*"))
		rules.WriteString("\n")
	}
	return rules.String()
}

// Hundreds of patterns, in many trees, with all options; a full test has thousands.
func TestGrepAgreesWithRipgrepOnGeneratedTrees(t *testing.T) {
	withoutUser(t)
	trees, patterns := 2, 100
	if full {
		trees = 6
	}
	var group sync.WaitGroup
	var failed atomic.Int32
	for seed, kind := range rgKinds {
		group.Go(func() {
			g := &rgGenerator{rand.New(rand.NewPCG(1, uint64(seed))), kind}
			for range trees {
				f := g.tree(t)
				for range patterns {
					pattern, opts := g.search()
					if compareWithRg(t, f, pattern, opts, g.flags...) != nil {
						failed.Add(1)
					}
					if t.Failed() {
						return
					}
				}
			}
		})
	}
	group.Wait()
	if n := failed.Load(); n > int32(len(rgKinds)*trees*patterns/100) {
		t.Errorf("rg itself failed %d times", n)
	}
}

// realSearches are searches that people make, and difficult ones.
var realSearches = []struct {
	pattern string
	opts    GrepOptions
}{
	{"TODO", GrepOptions{Spans: true}},
	{"todo", GrepOptions{IgnoreCase: true, Report: GrepCounts}},
	{`func New[A-Z]\w+Reader\(`, GrepOptions{Spans: true, Before: 2, After: 1}},
	{"EOF|ErrUnexpected|io\\.Copy|panic\\(", GrepOptions{Report: GrepCounts}},
	{`\w{5}\s+\w{5}\s+\w{5}$`, GrepOptions{Report: GrepCounts}},
	{"[0-9a-f]{32}", GrepOptions{Spans: true}},
	{`^\s*//.*\bdeprecated\b`, GrepOptions{IgnoreCase: true}},
	{"^$", GrepOptions{Report: GrepCounts}},
	{"", GrepOptions{Report: GrepCounts, Include: []string{"*.go"}, NoIgnore: true, Hidden: true}},
	{"é|ü|ß", GrepOptions{Spans: true}},
	{"err", GrepOptions{Word: true, Report: GrepCounts, MaxPerFile: 7}},
	{"if err != nil {", GrepOptions{Fixed: true, Report: GrepCounts}},
	{`return nil\n}\n\nfunc \(`, GrepOptions{Multiline: true}},
	{`struct \{\s*\}`, GrepOptions{Multiline: true, Report: GrepFiles}},
	{"Package", GrepOptions{SmartCase: true, Report: GrepFiles, Exclude: []string{"*_test.go", "testdata"}}},
	{`[^\x00-\x7f]{3}`, GrepOptions{Include: []string{"*.go"}, NoIgnore: true, Hidden: true}},
}

func TestGrepAgreesWithRipgrepOnTheStandardLibrary(t *testing.T) {
	withGoEnv(t, "env", "GOROOT")
}

func TestGrepAgreesWithRipgrepOnTheModuleCache(t *testing.T) {
	withGoEnv(t, "list", "-m", "-f", "{{.Dir}}", "google.golang.org/grpc")
	withGoEnv(t, "list", "-m", "-f", "{{.Dir}}", "golang.org/x/text")
}

// withGoEnv compares all searches in the directory that a variable of "go env"
// names.
func withGoEnv(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("go", args...).Output()
	must(t, err)
	dir := strings.TrimSpace(string(out))
	if args[0] == "env" {
		dir = filepath.Join(dir, "src")
	}
	withoutUser(t)
	for _, search := range realSearches {
		flags := []string{"--crlf"}
		if search.opts.Multiline {
			flags = nil
		}
		must(t, compareWithRg(t, New(dir), search.pattern, search.opts, flags...))
	}
}
