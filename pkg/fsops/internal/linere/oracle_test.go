package linere

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// generatedPatterns is how many patterns are compared with the standard library, on
// any machine.
const generatedPatterns = 8000

// oracleLines finds the matching lines with the standard library, line by line.
func oracleLines(t *testing.T, pattern string, opts Options, text []byte) []Span {
	t.Helper()
	re, err := Compile(pattern, opts)
	if err != nil {
		t.Fatal(err)
	}
	if opts.Fixed {
		pattern = regexp.QuoteMeta(pattern)
	}
	if opts.IgnoreCase {
		pattern = "(?i:" + pattern + ")"
	}
	if opts.Word {
		pattern = `(?:^|\W)(?:` + pattern + `)(?:\W|$)`
	}
	std := regexp.MustCompile(pattern)
	var lines []Span
	for from := 0; from < len(text); {
		end := bytes.IndexByte(text[from:], '\n') + from
		if end < from {
			end = len(text)
		}
		line := text[from:end]
		if !re.keepCR {
			line = bytes.TrimSuffix(line, []byte("\r"))
		}
		if std.Match(line) {
			lines = append(lines, Span{from, end})
		}
		from = end + 1
	}
	return lines
}

// allLines finds the matching lines with a Searcher.
func allLines(s *Searcher, text []byte) []Span {
	var lines []Span
	for from := 0; ; {
		start, end, ok := s.Next(text, from)
		if !ok {
			return lines
		}
		lines = append(lines, Span{start, end})
		if len(lines) > len(text) {
			return lines // it makes no progress
		}
		from = min(end+1, len(text))
	}
}

// portable returns the pattern as processors without vector instructions search for
// it.
func (re *Regexp) portable() *Regexp {
	other := *re
	other.vector = nil
	return &other
}

// checkLines compares a Searcher with the standard library.
func checkLines(t *testing.T, pattern string, opts Options, texts ...string) {
	t.Helper()
	re, err := Compile(pattern, opts)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	s, portable := re.Searcher(context.Background()), re.portable().Searcher(context.Background())
	for _, text := range texts {
		want := oracleLines(t, pattern, opts, []byte(text))
		if diff := cmp.Diff(want, allLines(s, []byte(text))); diff != "" {
			t.Fatalf("pattern %q %+v, text %q (-want +got):\n%s", pattern, opts, text, diff)
		}
		if diff := cmp.Diff(want, allLines(portable, []byte(text))); diff != "" {
			t.Fatalf("pattern %q %+v, text %q, without vectors (-want +got):\n%s", pattern, opts, text, diff)
		}
		if _, end, ok := s.nextByLine([]byte(text), 0); ok != (len(want) > 0) || ok && end != want[0].End {
			t.Fatalf("pattern %q %+v, text %q: the standard library finds a line that ends at %d: %t", pattern, opts, text, end, ok)
		}
	}
}

func TestLinesEqualGoRegexpForGeneratedPatterns(t *testing.T) {
	g := newGenerator(1)
	for range generatedPatterns {
		opts := Options{IgnoreCase: g.IntN(4) == 0, Word: g.IntN(5) == 0, Fixed: g.IntN(20) == 0}
		pattern := g.pattern(g.IntN(4))
		var texts []string
		for range 4 {
			texts = append(texts, g.text())
		}
		checkLines(t, pattern, opts, texts...)
	}
}

// TestLinesEqualGoRegexpInLongTexts covers the searches that work on large blocks.
func TestLinesEqualGoRegexpInLongTexts(t *testing.T) {
	g := newGenerator(6)
	var b strings.Builder
	for b.Len() < 100<<10 {
		b.WriteString(g.text())
	}
	texts := []string{b.String(), strings.Repeat("x", 40<<10) + "\n" + b.String(), strings.ReplaceAll(b.String(), "\n", " ")}
	for size := minBlock - 3; size <= minBlock+3; size++ {
		// Lines and characters that cross the end of the first block.
		texts = append(texts, strings.Repeat("x", size)+"AskK世AskK\nAsk K", strings.Repeat("世", size)+"AskK\n", strings.Repeat("x\n", size/2)+"x")
	}
	for range 40 {
		checkLines(t, g.pattern(3), Options{Word: g.IntN(4) == 0}, texts...)
	}
	for _, rare := range []string{`\w{3}é\w\w-a`, `^[ab]+\s?k+$`, `(?:[a-c]{3} ){2}`, `^Ask.*K$`, `\b\w{12}\b`, `x$`, `[^\n]{60,}`} {
		for _, word := range []bool{false, true} {
			checkLines(t, rare, Options{Word: word}, texts...)
		}
	}
}

// TestSpansEqualGoRegexp compares the matches within lines.
func TestSpansEqualGoRegexp(t *testing.T) {
	g := newGenerator(7)
	for range 3000 {
		pattern, line := g.pattern(g.IntN(3)), []byte(strings.ReplaceAll(g.text(), "\n", " "))
		re, err := Compile(pattern, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var want []Span
		for _, loc := range regexp.MustCompile(pattern).FindAllIndex(re.trim(line), -1) {
			want = append(want, Span{loc[0], loc[1]})
		}
		for range 2 {
			if diff := cmp.Diff(want, re.Searcher(context.Background()).Spans(nil, line, len(line)+1)); diff != "" {
				t.Fatalf("pattern %q, line %q, %d bytes at once (-want +got):\n%s", pattern, line, re.atOnce, diff)
			}
			re.atOnce = 0 // as in a long line
		}
	}
}

// TestMultilineEqualsGoRegexp compares the matches in a whole text. Each match must
// be in the lines that are found. An empty match after one that took the newline
// counts only for Next, which starts again with each line.
func TestMultilineEqualsGoRegexp(t *testing.T) {
	g := newGenerator(8)
	for range 3000 {
		pattern, text := g.pattern(g.IntN(3)), []byte(strings.ReplaceAll(g.text(), "\r", ""))
		re, err := Compile(pattern, Options{Multiline: true})
		if err != nil {
			t.Fatal(err)
		}
		var want []Span
		for _, loc := range regexp.MustCompile("(?m:"+pattern+")").FindAllIndex(text, -1) {
			if m := (Span{loc[0], loc[1]}); m.End > m.Start {
				if lineEnd(text, m.Start) < m.End && text[m.End-1] == '\n' {
					m.End--
				}
				if m.End > m.Start {
					want = append(want, m)
				}
			}
		}
		for range 2 {
			if diff := cmp.Diff(want, allSpans(re.Searcher(context.Background()), text)); diff != "" {
				t.Fatalf("pattern %q, text %q, %d bytes at once (-want +got):\n%s", pattern, text, re.atOnce, diff)
			}
			re.atOnce = 0 // as in a long text
		}
	}
}

// allSpans finds the non-empty matches in a text.
func allSpans(s *Searcher, text []byte) (spans []Span) {
	for _, line := range allLines(s, text) {
		s.Next(text, line.Start)
		for _, m := range s.Spans(nil, text[line.Start:line.End], len(text)+1) {
			if m.End > m.Start {
				spans = append(spans, Span{line.Start + m.Start, line.Start + m.End})
			}
		}
	}
	return spans
}
