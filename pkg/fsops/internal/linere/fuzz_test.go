package linere

import (
	"regexp/syntax"
	"testing"
	"unicode/utf8"
)

func FuzzLinesAgainstGoRegexp(f *testing.F) {
	for _, pattern := range []string{
		"foo", "foo|bar|k", "^a.*b$", `\bk\b|s$`, `[^a]\s*\w{2,3}$`, "(?i)kiß", `a\r`, `\x{FFFD}+`, "(a|ab)(c|bcd)*", `\B.\B`, "", `\PL\z`,
	} {
		f.Add(pattern, []byte("foo bar\r\nkiſs \u212a\n\n\xffabc\xe4\xb8\nA b\r"), uint8(0))
		f.Add(pattern, []byte("straße\n a b_c\nKISS"), uint8(3))
	}
	f.Fuzz(func(t *testing.T, pattern string, text []byte, bits uint8) {
		opts := Options{IgnoreCase: bits&1 != 0, Word: bits&2 != 0, Fixed: bits&4 != 0}
		if len(pattern) > 100 || len(text) > 4096 || !utf8.ValidString(pattern) {
			return
		}
		if _, err := syntax.Parse("(?:"+pattern+")", syntax.Perl); err != nil && !opts.Fixed {
			return // invalid, or with an open \Q
		}
		if _, err := Compile(pattern, opts); err != nil {
			return // too large
		}
		checkLines(t, pattern, opts, string(text))
	})
}
