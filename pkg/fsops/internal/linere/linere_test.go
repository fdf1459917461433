package linere

import (
	"context"
	"errors"
	"regexp/syntax"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// search returns the matching lines, each with its matches in brackets.
func search(t *testing.T, pattern string, opts Options, text string) []string {
	t.Helper()
	re, err := Compile(pattern, opts)
	if err != nil {
		t.Fatalf("%q: %v", pattern, err)
	}
	s := re.Searcher(context.Background())
	var lines []string
	for from := 0; len(lines) <= len(text); {
		start, end, ok := s.Next([]byte(text), from)
		if !ok {
			break
		}
		line := text[start:end]
		var b strings.Builder
		last := 0
		for _, m := range s.Spans(nil, []byte(line), 100) {
			b.WriteString(line[last:m.Start] + "[" + line[m.Start:m.End] + "]")
			last = m.End
		}
		lines = append(lines, b.String()+line[last:])
		from = end + 1
	}
	return lines
}

type searchTest struct {
	name, pattern string
	opts          Options
	text          string
	want          []string
}

func checkSearches(t *testing.T, tests []searchTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := search(t, test.pattern, test.opts, test.text)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%q %+v in %q (-want +got):\n%s", test.pattern, test.opts, test.text, diff)
			}
		})
	}
}

func TestLinesAndSpans(t *testing.T) {
	checkSearches(t, []searchTest{
		{"literal", "foo", Options{}, "a\nfoo foo\nb", []string{"[foo] [foo]"}},
		{"last line has no newline", "b", Options{}, "a\nb", []string{"[b]"}},
		{"no line after the last newline", "^", Options{}, "a\n\n", []string{"[]a", "[]"}},
		{"empty text", "", Options{}, "", nil},
		{"ends of lines", `^a$|\Ab\z`, Options{}, "a\nab\nb\n", []string{"[a]", "[b]"}},
		{"nothing matches a newline", `a\s*b|c[^x]d|e(?s:.)f`, Options{}, "a\nb\nc\nd\ne\nf\n", nil},
		{"a newline in the pattern", `a\nb`, Options{}, "a\nb\n", nil},
		{"leftmost first", "a|ab", Options{}, "ab", []string{"[a]b"}},
		{"words know ASCII alone", `\bé|\w+`, Options{}, "é\nab\n", []string{"[ab]"}},
		{"invalid UTF-8", "^.\ufffd.$", Options{}, "\xff\xff\xff\n\xffa\xff\n\xe4\xb8\x00\n", []string{"[\xff\xff\xff]", "[\xe4\xb8\x00]"}},
		{"no match at all", `[^\x00-\x{10FFFF}]`, Options{}, "a\n", nil},
	})
}

func TestCarriageReturns(t *testing.T) {
	checkSearches(t, []searchTest{
		{"end before it", "a$", Options{}, "a\r\nb\r\na\r", []string{"[a]\r", "[a]\r"}},
		{"only the last", "a$", Options{}, "a\r\r\n", nil},
		{"within a line", "a.b", Options{}, "a\rb\n", []string{"[a\rb]"}},
		{"not matched by others", `a[\s]|a\W`, Options{}, "a\r\n", nil},
		{"empty line", "^$", Options{}, "\r\n\n", []string{"[]\r", "[]"}},
		{"named", `a\r`, Options{}, "a\r\n", []string{"[a\r]"}},
		{"named in a class", `a[\r\n]`, Options{}, "a\r\n", []string{"[a\r]"}},
		{"fixed", "a\r", Options{Fixed: true}, "a\r\n", []string{"[a\r]"}},
		{"multiline", "a$", Options{Multiline: true}, "a\r\nba\n", []string{"[a]\r", "b[a]"}},
		{"multiline, all ends", "$", Options{Multiline: true}, "a\r\n", []string{"a[]\r"}},
	})
}

func TestIgnoreCase(t *testing.T) {
	ignore := Options{IgnoreCase: true}
	checkSearches(t, []searchTest{
		{"ASCII", "FooBar", ignore, "fOObAR\n", []string{"[fOObAR]"}},
		{"the Kelvin sign and the long s", "kiss", ignore, "\u212ai\u017fS\nKISS\n", []string{"[\u212ai\u017fS]", "[KISS]"}},
		{"beyond ASCII", "straße", ignore, "STRAẞE\n", []string{"[STRAẞE]"}},
		{"what differs from a letter by the bit of its case", "[@`]a{", Options{IgnoreCase: true, Fixed: true}, "[@`]A{\n{`@}a[\n", []string{"[[@`]A{]"}},
		{"a part of the pattern", "a(?i:bcd)e", Options{}, "aBcDe\nABCDE\n", []string{"[aBcDe]"}},
	})
}

func TestSmartCase(t *testing.T) {
	for pattern, want := range map[string]bool{
		"foo": true, "Foo": false, `foo\S`: true, `foo\pL`: true, `foo\p{Lu}`: true, `\S`: false, "": false, `\w+$`: false,
		"foo[A-Z]": false, "foo[[:upper:]]": true, `foo[^\W]`: true, `\x41a`: false, `\x{41}a`: false, `\101a`: false, `\x61`: true,
		`\Qa\S\E`: false, `\Qab\E\S`: true, "(?P<Name>x)": true, "(?i:x)Y": false, "éa": true, "Éa": false, "a{2,3}": true,
		`\w{2}`: false, "a{,X": false, "[]A]": false, "[]a]": true, `\\S`: false, `\.`: true, "[a[:^upper:]]": true,
	} {
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
			t.Fatal(err)
		}
		if got := isSmartFold(pattern); got != want {
			t.Errorf("%q: ignores case: %v, want %v", pattern, got, want)
		}
	}
	checkSearches(t, []searchTest{
		{"lower case", "foo", Options{SmartCase: true}, "Foo\n", []string{"[Foo]"}},
		{"upper case", "Foo", Options{SmartCase: true}, "Foo\nfoo\n", []string{"[Foo]"}},
		{"fixed", `foo\S`, Options{SmartCase: true, Fixed: true}, "foo\\S\nfoo\\s\n", []string{`[foo\S]`}},
	})
}

func TestFixed(t *testing.T) {
	fixed := Options{Fixed: true}
	checkSearches(t, []searchTest{
		{"meta characters", `a.b*\Q(`, fixed, "xa.b*\\Q(\naxb\n", []string{`x[a.b*\Q(]`}},
		{"newline", "a\nb", fixed, "a\nb\n", nil},
		{"newline, multiline", "a\nb", Options{Fixed: true, Multiline: true}, "xa\nb\n", []string{"x[a\nb]"}},
		{"empty", "", fixed, "ab\n", []string{"[]a[]b[]"}},
		{"word", "a.", Options{Fixed: true, Word: true}, "a.b\na. b\n", []string{"[a.] b"}},
	})
}

func TestWord(t *testing.T) {
	word := Options{Word: true}
	checkSearches(t, []searchTest{
		{"whole words", "foo", word, "foobar\nfoo bar\nafoo _foo foo_ foo\n", []string{"[foo] bar", "afoo _foo foo_ [foo]"}},
		{"adjacent", "foo", word, "foo foo,foo\n", []string{"[foo] [foo],[foo]"}},
		{"ends that are no words", `-x-|\$`, word, "a-x-b\na -x- b\n-x-\n$\n$$\na$\n", []string{"a [-x-] b", "[-x-]", "[$]", "[$][$]"}},
		{"another way to match", "foo|foobar", word, "foobar\n", []string{"[foobar]"}},
		{"beyond ASCII", "foo", word, "éfoo\xff\n", []string{"é[foo]\xff"}},
		{"before a carriage return", "foo", word, "foo\r\n", []string{"[foo]\r"}},
		{"anchors", "^foo$", word, "foo\n foo\n", []string{"[foo]"}},
		{"an open quotation", `foo\Qbar`, word, "foobar\nfoobarx\n", []string{"[foobar]"}},
		{"empty", "", word, "a\n\na b\n- -\n", []string{"[]", "[]-[] []-[]"}},
		{"ignore case", "k", Options{Word: true, IgnoreCase: true}, "\u212a\nKk\n", []string{"[\u212a]"}},
	})
}

func TestMultiline(t *testing.T) {
	multi := Options{Multiline: true}
	checkSearches(t, []searchTest{
		{"all lines that a match touches", `b\nc`, multi, "a\nxb\ncx\nd\n", []string{"x[b\nc]x"}},
		{"a match that ends with a newline", `b\n`, multi, "a\nb\nc\n", []string{"[b]"}},
		{"matches that share a line", `a\nb|c\nd`, multi, "a\nb c\nd\ne", []string{"[a\nb] [c\nd]"}},
		{"ends of lines", "^b$", multi, "a\nb\nab\n", []string{"[b]"}},
		{"ends of the text", `\Aa|b\z`, multi, "a\na\nb\nb", []string{"[a]", "[b]"}},
		{"what is not a newline", `a.b|c[^x]d|e\sf|g(?s:.)h`, multi, "a\nb\nc\nd\ne\nf\ng\nh\n", []string{"[c\nd]", "[e\nf]", "[g\nh]"}},
		{"word", `a\nb`, Options{Multiline: true, Word: true}, "a\nbb\na\nb\n", []string{"[a\nb]"}},
		{"empty matches", "x*", multi, "a\nx\n", []string{"[]a[]", "[x]"}},
		{"ignore case", "a\\nb", Options{Multiline: true, IgnoreCase: true}, "A\nB\n", []string{"[A\nB]"}},
	})
}

func TestSpansAreLimited(t *testing.T) {
	for _, opts := range []Options{{}, {Word: true}, {Multiline: true}, {Fixed: true}, {IgnoreCase: true}} {
		re, err := Compile("a", opts)
		if err != nil {
			t.Fatal(err)
		}
		s, line := re.Searcher(context.Background()), []byte("a a a")
		if _, _, ok := s.Next(line, 0); !ok {
			t.Fatalf("%+v: no match", opts)
		}
		got := s.Spans([]Span{{7, 8}}, line, 2)
		if diff := cmp.Diff([]Span{{7, 8}, {0, 1}, {2, 3}}, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", opts, diff)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, opts := range []Options{{}, {Word: true, IgnoreCase: true}, {Multiline: true}, {SmartCase: true}} {
		for pattern, code := range map[string]syntax.ErrorCode{
			"a(b": syntax.ErrMissingParen, "a)": syntax.ErrUnexpectedParen, "[a": syntax.ErrMissingBracket, "*": syntax.ErrMissingRepeatArgument,
			"\xff": syntax.ErrInvalidUTF8, `\`: syntax.ErrTrailingBackslash, `\q`: syntax.ErrInvalidEscape, "a{1001}": syntax.ErrInvalidRepeatSize,
			strings.Repeat(`\w{1000}`, 40): syntax.ErrLarge, `\p{`: syntax.ErrInvalidCharRange, "(?P<n": syntax.ErrInvalidNamedCapture,
		} {
			_, err := Compile(pattern, opts)
			var bad *syntax.Error
			if !errors.As(err, &bad) || bad.Code != code {
				t.Errorf("%q %+v: error %v, want %v", pattern, opts, err, code)
			}
		}
	}
	if _, err := Compile("\xff", Options{Fixed: true}); err == nil {
		t.Error("a fixed pattern that is not UTF-8 compiles")
	}
}

func TestRegexpIsUsedConcurrently(t *testing.T) {
	re, err := Compile(`a\w+b|k[0-9]+x`, Options{IgnoreCase: true})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(strings.Repeat("axxb\nK12X\nnothing\n", 500))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := re.Searcher(context.Background())
			if n := len(allLines(s, text)); n != 1000 {
				t.Errorf("%d lines, want 1000", n)
			}
			if n := len(s.Spans(nil, text[:4], 5)); n != 1 {
				t.Errorf("%d matches, want 1", n)
			}
		})
	}
	all.Wait()
}
