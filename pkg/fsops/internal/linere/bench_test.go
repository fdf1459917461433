package linere

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// benchText returns the sources of net/http, or the file that LINERE_TEXT names.
func benchText(b *testing.B) []byte {
	b.Helper()
	if name := os.Getenv("LINERE_TEXT"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		return text
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src/net/http/*.go"))
	if err != nil || len(names) == 0 {
		b.Fatal("cannot find the sources of net/http: ", err)
	}
	var text bytes.Buffer
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		text.Write(content)
	}
	return text.Bytes()
}

// benchPatterns are the kinds of patterns whose speed matters.
var benchPatterns = []struct {
	name, pattern string
	opts          Options
}{
	{name: "literal", pattern: "podAffinity"},
	{name: "literalCommon", pattern: "return"},
	{name: "ignoreCase", pattern: "podAffinity", opts: Options{IgnoreCase: true}},
	{name: "ignoreCaseK", pattern: "kubelet", opts: Options{IgnoreCase: true}},
	{name: "prefix", pattern: `func New[A-Z]\w+Controller\(`},
	{name: "fourLiterals", pattern: "podAffinity|nodeAffinity|tolerationSeconds|imagePullPolicy"},
	{name: "word", pattern: "Response", opts: Options{Word: true}},
	{name: "noLiteral", pattern: `\w{5}\s+\w{5}`},
	{name: "noLiteralRare", pattern: `[0-9a-f]{40}`},
	{name: "anchored", pattern: `^\s*\w+ := [a-z]+\(`},
	{name: "boundary", pattern: `\b[A-Z]{3,}\b$`},
}

func BenchmarkLines(b *testing.B) {
	text := benchText(b)
	for _, q := range benchPatterns {
		b.Run(q.name+"/linere", func(b *testing.B) {
			re, err := Compile(q.pattern, q.opts)
			if err != nil {
				b.Fatal(err)
			}
			s := re.Searcher(context.Background())
			b.SetBytes(int64(len(text)))
			n := 0
			for b.Loop() {
				n = countLines(s, text)
			}
			b.ReportMetric(float64(n), "lines")
		})
		if testing.Short() {
			continue
		}
		b.Run(q.name+"/regexp", func(b *testing.B) {
			prefix, suffix := "(?m:", ")"
			if q.opts.IgnoreCase {
				prefix = "(?mi:"
			}
			if q.opts.Word {
				prefix, suffix = `(?m:(?:^|\W)(?:`, `)(?:\W|$))`
			}
			re := regexp.MustCompile(strings.ReplaceAll(prefix+q.pattern+suffix, `\s`, "[ \t\r]"))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for rest := text; ; {
					loc := re.FindIndex(rest)
					if loc == nil {
						break
					}
					rest = rest[min(lineEnd(rest, loc[0])+1, len(rest)):]
				}
			}
		})
	}
}

func countLines(s *Searcher, text []byte) (n int) {
	for from := 0; ; n++ {
		_, end, ok := s.Next(text, from)
		if !ok {
			return n
		}
		from = end + 1
	}
}
