package globs

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
)

// A SyntaxError says where and why a pattern is not valid.
type SyntaxError struct {
	Pattern string
	// Offset is where in Pattern the fault is, in bytes; -1 if it is not known.
	Offset int
	// Msg says what is wrong.
	Msg string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("pattern %q: %s", e.Pattern, e.Msg) }

// invalidByteRunes begins a range of 256 private-use code points that stand
// for the bytes of invalid UTF-8, see oneRunePerByte.
const invalidByteRunes = 0x10ff00

// oneRunePerByte prepares a pattern or path for doublestar, to which all bytes that are
// no valid UTF-8 are the same: each becomes a code point of its own.
func oneRunePerByte(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			r = invalidByteRunes + rune(s[0])
		}
		b.WriteRune(r)
		s = s[n:]
	}
	return b.String()
}

// Check returns nil for a valid pattern, and a [*SyntaxError] for any other: one
// that doublestar does not take, is empty, has a NUL byte or more than 64 KiB, or
// whose braces stand for more than 65,536 patterns.
func Check(pattern string) error {
	switch nul := strings.IndexByte(pattern, 0); {
	case pattern == "":
		return &SyntaxError{Pattern: pattern, Msg: "pattern is empty"}
	case nul >= 0:
		return &SyntaxError{Pattern: pattern, Offset: nul, Msg: "a path holds no NUL byte"}
	case len(pattern) > maxPattern:
		return &SyntaxError{Pattern: pattern, Offset: maxPattern, Msg: fmt.Sprintf("pattern is longer than %d KiB", maxPattern>>10)}
	case !doublestar.ValidatePattern(pattern):
		offset, msg := fault(pattern)
		return &SyntaxError{Pattern: pattern, Offset: offset, Msg: msg}
	case countAlternatives(pattern) > maxPatterns:
		return &SyntaxError{Pattern: pattern, Offset: -1, Msg: fmt.Sprintf("braces stand for more than %d patterns", maxPatterns)}
	}
	return nil
}

// countAlternatives returns how many patterns without braces a valid pattern
// stands for, or maxPatterns+1 if they are more than maxPatterns.
func countAlternatives(pattern string) int {
	// For each open brace: the patterns of its complete alternatives, and of the
	// present one.
	type brace struct{ complete, present int }
	braces := []brace{{present: 1}}
	for i := 0; i < len(pattern); i++ {
		inner := &braces[len(braces)-1]
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = classEnd(pattern, i) - 1
		case c == '{':
			braces = append(braces, brace{present: 1})
		case c == ',' && len(braces) > 1:
			*inner = brace{complete: min(inner.complete+inner.present, maxPatterns+1), present: 1}
		case c == '}':
			n := min(inner.complete+inner.present, maxPatterns+1)
			braces = braces[:len(braces)-1]
			outer := &braces[len(braces)-1]
			outer.present = min(outer.present*n, maxPatterns+1)
		}
	}
	return braces[0].present
}

// fault says where and why doublestar rejects the pattern.
func fault(pattern string) (offset int, msg string) {
	var open []int
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; i == len(pattern) {
				return i - 1, "nothing follows the backslash"
			}
		case '[':
			end := classEnd(pattern, i)
			if end < 0 {
				return i, "character class is empty or not closed"
			}
			i = end - 1
		case '{':
			open = append(open, i)
		case '}':
			if len(open) == 0 {
				return i, "closing brace without an opening one"
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		return open[len(open)-1], "brace is not closed"
	}
	return -1, "syntax error"
}

// classEnd returns the end of the class that begins at i, -1 if it has no end or is
// empty.
func classEnd(pattern string, i int) int {
	i++
	if i < len(pattern) && (pattern[i] == '^' || pattern[i] == '!') {
		i++
	}
	if i < len(pattern) && pattern[i] == ']' {
		return -1
	}
	for ; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return -1
}

// Match reports whether a valid pattern matches the whole path, as doublestar does.
func Match(pattern, path string) bool {
	return doublestar.MatchUnvalidated(oneRunePerByte(pattern), oneRunePerByte(path))
}

// Split divides a valid pattern into the directory that it begins with, unescaped,
// and the rest, which begins with a part that has a wildcard. A pattern without any
// wildcard is all directory. The directory of an absolute pattern begins with a
// slash; that of a relative one may be empty.
func Split(pattern string) (dir, rest string) {
	var literal strings.Builder
	start := 0 // of the part that is being read
	done := 0  // length of the finished parts in literal
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		if c == '\\' {
			i++
			c = pattern[i]
		} else if strings.IndexByte("*?[{", c) >= 0 {
			return literal.String()[:done], pattern[start:]
		}
		literal.WriteByte(c)
		if c == '/' {
			start, done = i+1, literal.Len()
		}
	}
	return literal.String(), ""
}

// Expand returns the patterns without braces that a valid pattern stands for. It
// fails with a [*SyntaxError] if there are more than 256.
func Expand(pattern string) ([]string, error) {
	all := expand(pattern)
	if all == nil {
		return nil, &SyntaxError{Pattern: pattern, Offset: -1, Msg: fmt.Sprintf("braces stand for more than %d patterns", maxAlternatives)}
	}
	return all, nil
}

// expand is Expand, which returns nil if there are too many.
func expand(pattern string) []string {
	open := -1
	for i := 0; i < len(pattern) && open < 0; i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(pattern, i) - 1
		case '{':
			open = i
		}
	}
	if open < 0 {
		return []string{pattern}
	}
	alternatives, end := splitAlternatives(pattern, open)
	var all []string
	for _, alternative := range alternatives {
		more := expand(pattern[:open] + alternative + pattern[end:])
		if more == nil || len(all)+len(more) > maxAlternatives {
			return nil
		}
		all = append(all, more...)
	}
	return all
}

// splitAlternatives returns the alternatives of the brace at open, and where it
// ends.
func splitAlternatives(pattern string, open int) (alternatives []string, end int) {
	depth, start := 0, open+1
	for i := open + 1; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[':
			i = classEnd(pattern, i) - 1
		case c == '{':
			depth++
		case c == ',' && depth == 0:
			alternatives = append(alternatives, pattern[start:i])
			start = i + 1
		case c == '}' && depth > 0:
			depth--
		case c == '}':
			return append(alternatives, pattern[start:i]), i + 1
		}
	}
	return alternatives, len(pattern) // unreached: the pattern is valid
}
