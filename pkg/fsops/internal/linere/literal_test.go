package linere

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// literalsOf returns the literals of a pattern as text, with a trailing i if they
// match in any case, and = if one is a match by itself.
func literalsOf(t *testing.T, pattern string) []string {
	t.Helper()
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	list := requiredLiterals(withinLines(tree), namesCR(tree))
	if list == nil {
		return nil
	}
	texts := []string{}
	for _, l := range list {
		text := l.text
		if l.fold {
			text += "/i"
		}
		if l.exact {
			text += "="
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	return texts
}

func TestRequiredLiterals(t *testing.T) {
	for pattern, want := range map[string][]string{
		"foobar":                          {"foobar="},
		"(?i)FooBar":                      {"foobar/i="},
		"(?i)kiss":                        {"kiss/i=", "ſ", "\u212a"},
		"foo|bar|quux":                    {"bar=", "foo=", "quux="},
		"foo(bar|quux)?":                  {"foo="},
		"x?foobar$":                       {"foobar"},
		`func New[A-Z]\w+Controller\(`:    {"Controller("},
		`(foo\w+bar)quux`:                 {"barquux"},
		`\w+(foo|barber)\s+`:              {"barber", "foo"},
		`(?:foobar)+`:                     {"foobar"},
		`x(?:foobar){2}y`:                 {"xfoobarfoobary="},
		`x(?:foobar){2,3}y`:               {"foobary"},
		`\w{5}\s+\w{5}`:                   nil,
		`(foobar|\w)`:                     nil,
		`(foobar)*`:                       nil,
		"":                                nil,
		"e":                               nil,
		`foo\n`:                           {},
		"f\ufffdoobar":                    {"oobar"},
		`foo[\r\t]`:                       {"foo\t=", "foo\r"},
		"(?i)straßenbahn":                 {"enbahn/i"},
		"fooK(?i)bar":                     {"fookbar/i", "\u212a"},
		strings.Repeat("a", 100) + "quux": {strings.Repeat("a", 64)},
	} {
		if diff := cmp.Diff(want, literalsOf(t, pattern)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", pattern, diff)
		}
	}
}

// TestEveryMatchHasARequiredLiteral finds matching lines with the standard library,
// and looks for a required literal in each.
func TestEveryMatchHasARequiredLiteral(t *testing.T) {
	g := newGenerator(2)
	checked := 0
	for range 8000 {
		opts := Options{IgnoreCase: g.IntN(3) == 0}
		pattern, text := g.pattern(1+g.IntN(3)), []byte(g.text())
		re, err := Compile(pattern, opts)
		if err != nil {
			t.Fatal(err)
		}
		if !re.prefiltered {
			continue
		}
		matching := oracleLines(t, pattern, opts, text)
		for from := 0; from < len(text); from = lineEnd(text, from) + 1 {
			line := re.trim(text[from:lineEnd(text, from)])
			has, exact := hasLiteral(re.needles, line)
			matches := slices.Contains(matching, Span{from, lineEnd(text, from)})
			if matches && !has || exact && !matches {
				t.Fatalf("pattern %q %+v, line %q: matches %v, has a literal: %v, an exact one: %v", pattern, opts, line, matches, has, exact)
			}
			checked++
		}
	}
	if checked < 4000 {
		t.Errorf("only %d lines were checked", checked)
	}
}

// hasLiteral compares at every position.
func hasLiteral(needles []needle, line []byte) (has, exact bool) {
	for _, n := range needles {
		for at := 0; at+len(n.text) <= len(line); at++ {
			part := string(line[at : at+len(n.text)])
			if part == n.text || n.fold && lower(part) == n.text {
				has, exact = true, exact || n.exact
			}
		}
	}
	return has, exact
}

func TestNeedlesFindWhatBytesIndexFinds(t *testing.T) {
	g := newGenerator(3)
	for range 3000 {
		text := []byte(strings.Repeat(g.text(), 1+g.IntN(6)))
		l := literal{text: g.word() + g.letter(), fold: g.IntN(2) == 0}
		haystack, from := text, g.IntN(len(text)+1)
		if l.fold {
			l.text, haystack = lower(l.text), []byte(lower(string(text)))
		}
		want := bytes.Index(haystack[from:], []byte(l.text))
		if bytes.ContainsRune(text, '\ufffd') && l.fold {
			continue // lower would change the length of invalid UTF-8
		}
		got := -1
		for _, n := range newNeedles([]literal{l}) {
			if at := n.find(text, from, len(text)); at >= 0 && (got < 0 || at-from < got) {
				got = at - from
			}
			pair := n
			pair.rare = false
			if at := pair.find(text, from, len(text)); !l.fold && at != n.find(text, from, len(text)) {
				t.Fatalf("%q in %q from %d: at %d by the pair", l.text, text, from, at)
			}
		}
		if got != want {
			t.Fatalf("%q (fold %v) in %q from %d: at %d, want %d", l.text, l.fold, text, from, got, want)
		}
	}
}
