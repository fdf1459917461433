package linere

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// A source is a pattern as regexp/syntax reads it.
type source struct {
	text  string
	flags syntax.Flags
}

// parse reads a pattern.
func parse(pattern string, opts Options) (source, *syntax.Regexp, error) {
	src := source{pattern, syntax.Perl}
	if opts.Multiline {
		src.flags &^= syntax.OneLine
	}
	// A pattern that is not UTF-8 is refused, quoted or not.
	if opts.Fixed && utf8.ValidString(pattern) {
		src.text = regexp.QuoteMeta(pattern)
	}
	if opts.IgnoreCase {
		src.flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(src.text, src.flags)
	if err == nil && opts.SmartCase && !opts.IgnoreCase && isSmartFold(src.text) {
		src.flags |= syntax.FoldCase
		tree, err = syntax.Parse(src.text, src.flags)
	}
	if err != nil {
		return src, nil, err
	}
	if insts(tree, maxInsts) > maxInsts {
		return src, nil, &syntax.Error{Code: syntax.ErrLarge, Expr: pattern}
	}
	return src, tree, nil
}

// compile compiles the source between two expressions.
func (s source) compile(before, after string) (*regexp.Regexp, error) {
	flags := "(?"
	if s.flags&syntax.FoldCase != 0 {
		flags += "i"
	}
	if s.flags&syntax.OneLine == 0 {
		flags += "m"
	}
	before += flags + ":"
	re, err := regexp.Compile(before + s.text + ")" + after)
	if err != nil {
		// The pattern, which is valid, ends with text that \Q begins.
		return regexp.Compile(before + s.text + `\E)` + after)
	}
	return re, nil
}

// insts estimates how many instructions the program of an expression has; it
// stops counting beyond a limit.
func insts(re *syntax.Regexp, limit int) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpConcat, syntax.OpRepeat:
		n = 0
	}
	for _, sub := range re.Sub {
		if n > limit {
			return n
		}
		n += insts(sub, limit)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// shortest returns how long a match of an expression is at least, in characters.
func shortest(re *syntax.Regexp) (n int) {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune)
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1
	case syntax.OpCapture, syntax.OpPlus:
		return shortest(re.Sub[0])
	case syntax.OpRepeat:
		return re.Min * shortest(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			n += shortest(sub)
		}
	case syntax.OpAlternate:
		n = shortest(re.Sub[0])
		for _, sub := range re.Sub[1:] {
			n = min(n, shortest(sub))
		}
	}
	return n
}

// contains reports whether f is true for a part of the expression.
func contains(re *syntax.Regexp, f func(*syntax.Regexp) bool) bool {
	return f(re) || slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return contains(sub, f) })
}

// namesCR reports whether the expression names a carriage return, by itself or with
// the newline after it. A larger class, such as \s, does not count.
func namesCR(re *syntax.Regexp) bool {
	return contains(re, func(re *syntax.Regexp) bool {
		switch re.Op {
		case syntax.OpLiteral:
			return slices.Contains(re.Rune, '\r')
		case syntax.OpCharClass:
			return slices.Equal(withoutNewline(re.Rune), []rune{'\r', '\r'})
		}
		return false
	})
}

func hasBeginText(re *syntax.Regexp) bool {
	return contains(re, func(re *syntax.Regexp) bool { return re.Op == syntax.OpBeginText })
}

// withinLines changes an expression so that it finds the same matches in a text of many
// lines as in each line alone: the ends of the text become those of a line, and nothing
// matches a newline.
func withinLines(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpBeginText:
		return &syntax.Regexp{Op: syntax.OpBeginLine}
	case syntax.OpEndText:
		return &syntax.Regexp{Op: syntax.OpEndLine}
	case syntax.OpAnyChar:
		return &syntax.Regexp{Op: syntax.OpAnyCharNotNL}
	case syntax.OpLiteral:
		if slices.Contains(re.Rune, '\n') {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
	case syntax.OpCharClass:
		class := withoutNewline(re.Rune)
		if len(class) == 0 {
			return &syntax.Regexp{Op: syntax.OpNoMatch}
		}
		re = &syntax.Regexp{Op: syntax.OpCharClass, Flags: re.Flags, Rune: class}
	}
	return withSubs(re, withinLines)
}

// withSubs returns the expression with f applied to its parts.
func withSubs(re *syntax.Regexp, f func(*syntax.Regexp) *syntax.Regexp) *syntax.Regexp {
	if len(re.Sub) == 0 {
		return re
	}
	out := *re
	out.Sub = make([]*syntax.Regexp, len(re.Sub))
	for i, sub := range re.Sub {
		out.Sub[i] = f(sub)
	}
	return &out
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

func isEndLine(re *syntax.Regexp) bool { return re.Op == syntax.OpEndLine }

// endsBeforeCR lets the end of a line also match before its carriage return, which
// becomes part of the match.
func endsBeforeCR(re *syntax.Regexp) *syntax.Regexp {
	if !isEndLine(re) {
		return withSubs(re, endsBeforeCR)
	}
	cr := &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune{'\r'}}
	return &syntax.Regexp{Op: syntax.OpConcat, Sub: []*syntax.Regexp{
		{Op: syntax.OpQuest, Flags: syntax.NonGreedy, Sub: []*syntax.Regexp{cr}}, re,
	}}
}
