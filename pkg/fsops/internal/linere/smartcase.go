package linere

import (
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isSmartFold reports whether a valid pattern is to be matched in either case: it
// has a literal character, and none in upper case. The syntax tree would not help,
// since [A-Z] and \p{Lu} look alike there.
func isSmartFold(pattern string) bool {
	s := caseScanner{rest: pattern}
	for s.rest != "" {
		s.next()
	}
	return s.literal && !s.upper
}

// A caseScanner goes through the literal characters of a pattern.
type caseScanner struct {
	rest string
	// class says that the rest begins inside of brackets.
	class bool
	// literal says that there was a literal character, upper that one was upper case.
	literal, upper bool
}

// next takes the element that the rest begins with.
func (s *caseScanner) next() {
	r, size := utf8.DecodeRuneInString(s.rest)
	switch {
	case r == '\\':
		s.escape()
	case s.class:
		s.inClass(r, size)
	case r == '[':
		s.class = true
		s.skip(1)
		s.skip(len(s.rest) - len(strings.TrimPrefix(s.rest, "^")))
		if strings.HasPrefix(s.rest, "]") {
			s.take(']', 1)
		}
	case strings.HasPrefix(s.rest, "(?"):
		s.skip(strings.IndexAny(s.rest, ":>)") + 1)
	case r == '{' && repeatLen(s.rest) > 0:
		s.skip(repeatLen(s.rest))
	case strings.ContainsRune("()|*+?.^$", r):
		s.skip(size)
	default:
		s.take(r, size)
	}
}

func (s *caseScanner) inClass(r rune, size int) {
	switch {
	case r == ']':
		s.class = false
		s.skip(1)
	case strings.HasPrefix(s.rest, "[:") && strings.Contains(s.rest, ":]"):
		s.skip(strings.Index(s.rest, ":]") + 2)
	default:
		s.take(r, size)
	}
}

func (s *caseScanner) skip(n int) { s.rest = s.rest[n:] }

func (s *caseScanner) take(r rune, size int) {
	s.literal = true
	s.upper = s.upper || unicode.IsUpper(r)
	s.skip(size)
}

// escape takes a backslash and the rest of its escape.
func (s *caseScanner) escape() {
	r, size := utf8.DecodeRuneInString(s.rest[1:])
	switch {
	case r == 'Q' && !s.class:
		s.quoted()
	case r == 'p' || r == 'P':
		s.skip(2)
		if strings.HasPrefix(s.rest, "{") {
			s.skip(strings.IndexByte(s.rest, '}') + 1)
		} else {
			_, size = utf8.DecodeRuneInString(s.rest)
			s.skip(size)
		}
	case r == 'x' || '0' <= r && r <= '7':
		s.numeric()
	case strings.ContainsRune("dDwWsSbBAzCE", r):
		s.skip(1 + size)
	default:
		// A character that means itself, or a control character.
		s.take(unicode.ToLower(r), 1+size)
	}
}

func (s *caseScanner) quoted() {
	text, rest, _ := strings.Cut(s.rest[2:], `\E`)
	for _, r := range text {
		s.take(r, 0)
	}
	s.rest = rest
}

// numeric takes a character that is given by its number.
func (s *caseScanner) numeric() {
	n := len(`\x41`)
	if strings.HasPrefix(s.rest, `\x{`) {
		n = strings.IndexByte(s.rest, '}') + 1
	} else if s.rest[1] != 'x' {
		n = 1 + len(s.rest[1:min(4, len(s.rest))]) - len(strings.TrimLeft(s.rest[1:min(4, len(s.rest))], "01234567"))
	}
	r := rune(0)
	if re, err := syntax.Parse(s.rest[:n], syntax.Perl); err == nil && len(re.Rune) > 0 {
		r = re.Rune[0]
	}
	s.take(r, n)
}

// repeatLen returns the length of the repetition, as {2,3}, that s begins with.
func repeatLen(s string) int {
	end := strings.IndexByte(s, '}')
	if end < 2 || strings.Trim(s[1:end], "0123456789,") != "" || s[1] == ',' || strings.Count(s[:end], ",") > 1 {
		return 0
	}
	return end + 1
}
