package fsops

import (
	"errors"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/podagent/podagent/pkg/fsops/internal/linere"
)

// compileGrep compiles the pattern of a search.
func compileGrep(pattern string, opts GrepOptions) (*linere.Regexp, error) {
	re, err := linere.Compile(pattern, linere.Options{
		IgnoreCase: opts.IgnoreCase, SmartCase: opts.SmartCase,
		Fixed: opts.Fixed, Word: opts.Word, Multiline: opts.Multiline,
	})
	if err != nil {
		return nil, regexpFault(pattern, err)
	}
	return re, nil
}

// regexpFault reports a syntax error with its offset.
func regexpFault(pattern string, err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return &PatternError{Pattern: pattern, Offset: -1, Msg: err.Error()}
	}
	msg := e.Code.String()
	if e.Expr != pattern && e.Expr != "" {
		msg += ": " + e.Expr
	}
	return &PatternError{Pattern: pattern, Offset: faultOffset(pattern, e), Msg: msg}
}

func faultOffset(pattern string, e *syntax.Error) int {
	switch e.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		return unmatchedParen(pattern)
	case syntax.ErrInvalidUTF8:
		return validPrefix(pattern)
	case syntax.ErrTrailingBackslash:
		return len(pattern) - 1
	case syntax.ErrLarge, syntax.ErrNestingDepth:
		return -1
	}
	if strings.HasSuffix(pattern, e.Expr) {
		return len(pattern) - len(e.Expr)
	}
	// The same text may occur earlier and be right there: the offending one
	// is where the pattern, read from its beginning, first fails.
	for end := len(e.Expr); end < len(pattern) && end <= maxFaultSearch; end++ {
		if !strings.HasSuffix(pattern[:end], e.Expr) {
			continue
		}
		var first *syntax.Error
		if _, err := syntax.Parse(pattern[:end], syntax.Perl); errors.As(err, &first) && *first == *e {
			return end - len(e.Expr)
		}
	}
	return strings.Index(pattern, e.Expr)
}

// validPrefix returns how many bytes at the beginning of s are valid UTF-8.
func validPrefix(s string) int {
	for i, r := range s {
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd") {
			return i
		}
	}
	return len(s)
}

// unmatchedParen finds the parenthesis that has no counterpart.
func unmatchedParen(pattern string) int {
	var open []int
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if strings.HasPrefix(pattern[i:], `\Q`) {
				quoted, _, _ := strings.Cut(pattern[i:], `\E`)
				i += len(quoted)
			}
			i++
		case '[':
			i += skipClass(pattern[i:])
		case '(':
			open = append(open, i)
		case ')':
			if len(open) == 0 {
				return i
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) == 0 {
		return -1
	}
	return open[len(open)-1]
}

// skipClass returns the length of the class that s begins with, less one.
func skipClass(s string) int {
	i := 1
	if strings.HasPrefix(s[i:], "^") {
		i++
	}
	for first := true; i < len(s); first = false {
		switch {
		case s[i] == ']' && !first:
			return i
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], "[:"):
			if n := strings.Index(s[i:], ":]"); n > 0 {
				i += n + 1
			}
		}
		i++
	}
	return len(s)
}
