package linere

import (
	"math/rand/v2"
	"strings"
)

// A generator makes patterns, and texts in which they are likely to match.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, 1))}
}

// of returns a random choice.
func (g generator) of(choices ...string) string { return choices[g.IntN(len(choices))] }

// pattern returns a valid regular expression.
func (g generator) pattern(depth int) string {
	if depth <= 0 {
		return g.atom()
	}
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		var b strings.Builder
		for range 1 + g.IntN(4) {
			b.WriteString(g.pattern(depth - 1))
		}
		return b.String()
	case 4, 5:
		parts := make([]string, 2+g.IntN(3))
		for i := range parts {
			parts[i] = g.pattern(depth - 1)
		}
		return "(?:" + strings.Join(parts, "|") + ")"
	case 6, 7:
		return "(?:" + g.pattern(depth-1) + ")" + g.of("*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}")
	case 8:
		return g.of("(?i:", "(", "(?s:", "(?m:", "(?U:", "(?-s:") + g.pattern(depth-1) + ")"
	}
	return g.atom()
}

func (g generator) atom() string {
	switch g.IntN(16) {
	case 0, 1, 2, 3, 4:
		return g.letter()
	case 5, 6, 7, 8:
		return g.word()
	case 9, 10:
		return g.of(".", `\w`, `\W`, `\s`, `\S`, `\d`, `\pL`, `\PL`, `\p{Lu}`, "[[:alpha:]]", `[^\w]`, `\D`)
	case 11:
		return g.of("^", "$", `\b`, `\B`, `\A`, `\z`, "")
	case 12:
		return g.of(`\r`, `\n`, `[\r\n]`, `[^\n]`, `\x{FFFD}`, `[^a]`, `[\s\S]`, `\t`, `(?s:.)`)
	case 13, 14:
		return "[" + g.of("", "^") + g.letter() + g.letter() + "]"
	}
	return g.of("[a-c]", "[^a-z]", "[0-9a-f]", "[kK]", "[é-ü]", "[^\u0000-\u00ff]", "(?i:k)", "(?i:s)", "[à-þA-Z_]")
}

func (g generator) letter() string {
	return g.of("a", "b", "c", "k", "s", "K", "S", "A", "1", "_", " ", "é", "É", "\u212a", "ſ", "ß", "世", "-", "\U0001f600")
}

func (g generator) word() string {
	return g.of("abc", "kiss", "Ask", "foo", "bar", "a1", "ab", "basket", "é世", "KSK", "_a", "a b", "aaaa", "\ufffd", "-a-", "straße")
}

// text returns some lines.
func (g generator) text() string {
	var b strings.Builder
	for range g.IntN(12) {
		for range g.IntN(8) {
			b.WriteString(g.piece())
		}
		b.WriteString(g.of("\n", "\n", "\n", "\r\n", "\n\n", "\r\r\n"))
	}
	if g.IntN(2) == 0 {
		b.WriteString(g.piece())
	}
	return b.String()
}

func (g generator) piece() string {
	switch g.IntN(8) {
	case 0, 1, 2, 3:
		return g.letter()
	case 4, 5, 6:
		return g.word()
	}
	return g.of("\xff", "\xe4\xb8", "\xc3", "\x80", "\r", "\x00", "\t", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9f\x98", "KISS", "BaSKeT", "ſ")
}
