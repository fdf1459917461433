package fsops

import (
	"bytes"
	"errors"
	"iter"
	"regexp"
	"regexp/syntax"
	"strings"
)

// A lineMatcher finds the lines that match. It is the seam under which a
// faster engine fits. It may be used concurrently.
type lineMatcher interface {
	// Lines returns where the matching lines in block begin and end. A line
	// goes up to its newline, which is not part of it, or to the end of the
	// block; a block begins with a line.
	Lines(block []byte) iter.Seq2[int, int]
	// Spans returns at most n matches in a line, from the first on.
	Spans(line []byte, n int) []Span
}

// A regexpMatcher matches with the standard library's regular expressions.
type regexpMatcher struct {
	re *regexp.Regexp
	// literal is what every match begins with; empty if that is not known.
	literal []byte
	// keepCR says that the pattern names a carriage return, so that the one
	// at the end of a line counts as a part of its text.
	keepCR bool
}

// compileGrep compiles a pattern of RE2's syntax.
func compileGrep(pattern string, ignoreCase bool) (*regexpMatcher, error) {
	flags := syntax.Perl
	if ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(pattern, flags)
	if err != nil {
		return nil, regexpFault(pattern, flags, err)
	}
	m := &regexpMatcher{keepCR: namesCR(tree)}
	re, err := regexp.Compile(withinLines(tree).String())
	if err != nil {
		return nil, &PatternError{Pattern: pattern, Offset: -1, Msg: err.Error()}
	}
	literal, _ := re.LiteralPrefix()
	m.re, m.literal = re, []byte(literal)
	return m, nil
}

// withinLines changes a regular expression so that it finds in a text of many
// lines what it would find in each of them alone: the ends of the text are
// those of a line, and nothing matches a newline.
func withinLines(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpBeginText:
		return &syntax.Regexp{Op: syntax.OpBeginLine}
	case syntax.OpEndText:
		return &syntax.Regexp{Op: syntax.OpEndLine}
	case syntax.OpAnyChar:
		return &syntax.Regexp{Op: syntax.OpAnyCharNotNL}
	case syntax.OpLiteral:
		if strings.ContainsRune(string(re.Rune), '\n') {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
	case syntax.OpCharClass:
		re.Rune = withoutNewline(re.Rune)
		if len(re.Rune) == 0 {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withinLines(sub)
	}
	return re
}

// withoutNewline removes the newline from a class, which is a list of pairs.
func withoutNewline(class []rune) []rune {
	var out []rune
	for i := 0; i < len(class); i += 2 {
		lo, hi := class[i], class[i+1]
		if lo > '\n' || hi < '\n' {
			out = append(out, lo, hi)
			continue
		}
		if lo < '\n' {
			out = append(out, lo, '\n'-1)
		}
		if hi > '\n' {
			out = append(out, '\n'+1, hi)
		}
	}
	return out
}

// namesCR reports whether a literal in the expression is a carriage return.
func namesCR(re *syntax.Regexp) bool {
	if re.Op == syntax.OpLiteral && strings.ContainsRune(string(re.Rune), '\r') {
		return true
	}
	for _, sub := range re.Sub {
		if namesCR(sub) {
			return true
		}
	}
	return false
}

func (m *regexpMatcher) Lines(block []byte) iter.Seq2[int, int] {
	next := m.next
	if !m.keepCR && bytes.IndexByte(block, '\r') >= 0 {
		next = m.nextByLine
	}
	return func(yield func(int, int) bool) {
		for from := 0; from < len(block); {
			start, end, ok := next(block, from)
			if !ok || !yield(start, end) {
				return
			}
			from = end + 1
		}
	}
}

// next returns the first line that matches at or after from.
func (m *regexpMatcher) next(block []byte, from int) (start, end int, ok bool) {
	loc := m.re.FindIndex(block[from:])
	if loc == nil {
		return 0, 0, false
	}
	at := from + loc[0]
	start = from + bytes.LastIndexByte(block[from:at], '\n') + 1
	// After the last newline there is a line only if there is text.
	return start, lineEnd(block, at), start < len(block)
}

// nextByLine looks at each line apart, because a carriage return at its end is
// no part of it.
func (m *regexpMatcher) nextByLine(block []byte, from int) (start, end int, ok bool) {
	for from < len(block) {
		if len(m.literal) > 0 {
			skip := bytes.Index(block[from:], m.literal)
			if skip < 0 {
				return 0, 0, false
			}
			from += bytes.LastIndexByte(block[from:from+skip], '\n') + 1
		}
		end := lineEnd(block, from)
		if m.re.Match(m.text(block[from:end])) {
			return from, end, true
		}
		from = end + 1
	}
	return 0, 0, false
}

func lineEnd(block []byte, at int) int {
	if n := bytes.IndexByte(block[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(block)
}

// text returns the part of a line that is matched.
func (m *regexpMatcher) text(line []byte) []byte {
	if m.keepCR {
		return line
	}
	return bytes.TrimSuffix(line, []byte("\r"))
}

func (m *regexpMatcher) Spans(line []byte, n int) []Span {
	found := m.re.FindAllIndex(m.text(line), n)
	spans := make([]Span, len(found))
	for i, loc := range found {
		spans[i] = Span{Start: loc[0], End: loc[1]}
	}
	return spans
}

// regexpFault reports a syntax error with the place where it is.
func regexpFault(pattern string, flags syntax.Flags, err error) error {
	var e *syntax.Error
	if !errors.As(err, &e) {
		return &PatternError{Pattern: pattern, Offset: -1, Msg: err.Error()}
	}
	msg := e.Code.String()
	if e.Expr != pattern && e.Expr != "" {
		msg += ": " + e.Expr
	}
	return &PatternError{Pattern: pattern, Offset: faultOffset(pattern, flags, e), Msg: msg}
}

func faultOffset(pattern string, flags syntax.Flags, e *syntax.Error) int {
	switch e.Code {
	case syntax.ErrMissingParen, syntax.ErrUnexpectedParen:
		return unmatchedParen(pattern)
	case syntax.ErrInvalidUTF8:
		return strings.IndexFunc(pattern, func(r rune) bool { return r == '\ufffd' })
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
		if _, err := syntax.Parse(pattern[:end], flags); errors.As(err, &first) && *first == *e {
			return end - len(e.Expr)
		}
	}
	return strings.Index(pattern, e.Expr)
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
