package ignore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// BenchmarkIgnore measures the cost of a repository's rules for each file.
func BenchmarkIgnore(b *testing.B) {
	for name, rules := range map[string]string{
		"usual":     usualRules,
		"rules=200": manyRules(200),
	} {
		b.Run(name, func(b *testing.B) {
			root := b.TempDir()
			if err := os.WriteFile(filepath.Join(root, FileName), []byte(rules), 0o666); err != nil {
				b.Fatal(err)
			}
			d, err := Open(root, root)
			for _, name := range []string{"staging", "src", "k8s.io", "api"} {
				if err == nil {
					d, err = d.Child(name)
				}
			}
			if err != nil {
				b.Fatal(err)
			}
			var names []string
			for i := range 1000 {
				names = append(names, fmt.Sprintf("zz_generated.conversion_%d.%s", i, []string{"go", "proto", "yaml", "md"}[i%4]))
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d.Ignored(names[i%len(names)], false) {
					b.Fatal("ignored")
				}
			}
		})
	}
}

// BenchmarkLongPattern matches a long path by a long pattern, and compares each of its tokens
// with each byte of the path, in turns. It reports how many times as long the latter takes.
func BenchmarkLongPattern(b *testing.B) {
	path, token := strings.Repeat("a", 4000), token{kind: anyByte}
	rules := Parse([]byte(longPattern))
	var match, each time.Duration
	for b.Loop() {
		begun := time.Now()
		if v := rules.Match(path, false); v != Undecided {
			b.Fatalf("decision %v", v)
		}
		matched := time.Now()
		for i := range len(longPattern) * len(path) {
			if !token.matchByte(path[i%len(path)]) {
				b.Fatal("it does not match")
			}
		}
		match, each = match+matched.Sub(begun), each+time.Since(matched)
	}
	b.ReportMetric(float64(each)/float64(match), "each/match")
}

// longPattern may go on at each place of a path, and so has many ways to fail.
var longPattern = "*a" + strings.Repeat("?", 1000) + "[b]*\n"

// usualRules are typical of repositories in kind and number.
const usualRules = `# OSX leaves these everywhere
._*
.DS_Store
/*.iml
*.iws
.idea/
*.swp
Session.vim
.cscope.*
tags
*~
[._]*.s[a-w][a-z]
/_artifacts/
/_output*/
/bin
**/.hg*
!\.drone.sec
/doc_tmp/
.make/
/vendor/**/testdata
!/third_party/**
node_modules/
network_closure.sh
*.orig
*.rej
`

// manyRules returns n made-up rules.
func manyRules(n int) string {
	rnd := rand.New(rand.NewPCG(3, 4))
	kinds := []string{"name%d", "*.ext%d", "/dir%d/", "dir%d/*.o", "**/cache%d/", "file%d.*", "/a/b%d", "*-%d~", "!keep%d", "[Tt]mp%d", "gen/**/%d.pb"}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, kinds[rnd.IntN(len(kinds))]+"\n", i)
	}
	return b.String()
}
