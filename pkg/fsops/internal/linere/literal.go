package linere

import (
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A literal is a text that a match contains.
type literal struct {
	text string
	// fold says that ASCII letters, which are lower case in text, match either case.
	fold bool
	// exact says that each occurrence of the text is a match.
	exact bool
}

// facts are the known facts about the matches of an expression. A nil list means that
// nothing is known; an empty one, that there is no match at all.
type facts struct {
	// exact are all texts that match; the other fields are the same then.
	exact []literal
	// Every match begins with one of prefix, ends with one of suffix, and
	// contains one of inner.
	prefix, suffix, inner []literal
}

// requiredLiterals returns the best list of literals such that each match of an
// expression has one of them; nil means that there is none of use. The expression is
// within lines.
//
// Case is folded as Go does it (unicode.SimpleFold). Besides the two cases of
// ASCII that concerns k and the Kelvin sign, s and the long s: a match has the
// literal in ASCII, or one of these two characters, which are literals as well.
func requiredLiterals(re *syntax.Regexp, keepCR bool) []literal {
	f := factsOf(re)
	best := better(better(better(withoutLonger(f.exact), f.inner), f.prefix), f.suffix)
	best = withFolds(withoutLonger(best))
	if !useful(best) {
		return nil
	}
	for i := range best {
		l := &best[i]
		l.exact = l.exact && (keepCR || strings.IndexByte(l.text, '\r') < 0)
	}
	return best
}

// exactly returns the facts of an expression that matches these texts alone.
func exactly(texts []literal) facts {
	return facts{exact: texts, prefix: texts, suffix: texts, inner: texts}
}

// factsOf finds the facts of an expression.
func factsOf(re *syntax.Regexp) facts {
	switch re.Op {
	case syntax.OpNoMatch:
		return exactly([]literal{})
	case syntax.OpEmptyMatch:
		return exactly([]literal{{exact: true}})
	case syntax.OpBeginLine, syntax.OpEndLine, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return exactly([]literal{{}})
	case syntax.OpLiteral:
		return factsOfLiteral(re)
	case syntax.OpCharClass:
		return factsOfClass(re)
	case syntax.OpCapture:
		return factsOf(re.Sub[0])
	case syntax.OpQuest:
		if f := factsOf(re.Sub[0]); f.exact != nil && len(f.exact) < maxLiterals {
			return exactly(append(f.exact[:len(f.exact):len(f.exact)], literal{exact: true}))
		}
	case syntax.OpPlus:
		return repeated(factsOf(re.Sub[0]))
	case syntax.OpRepeat:
		return factsOfRepeat(re)
	case syntax.OpConcat:
		c := newChain()
		for _, sub := range re.Sub {
			c.add(factsOf(sub))
		}
		return c.facts()
	case syntax.OpAlternate:
		return factsOfAlternate(re)
	}
	return facts{}
}

// factsOfLiteral divides a literal at characters that have other cases beyond ASCII, and
// at U+FFFD, which invalid UTF-8 matches too.
func factsOfLiteral(re *syntax.Regexp) facts {
	c := newChain()
	fold := re.Flags&syntax.FoldCase != 0
	for _, r := range re.Rune {
		switch {
		case r == utf8.RuneError || fold && r >= utf8.RuneSelf && unicode.SimpleFold(r) != r:
			c.add(facts{})
		case fold:
			c.add(exactly([]literal{{text: strings.ToLower(string(r)), fold: true, exact: true}}))
		default:
			c.add(exactly([]literal{{text: string(r), exact: true}}))
		}
	}
	return c.facts()
}

// factsOfClass lists the characters of a small class.
func factsOfClass(re *syntax.Regexp) facts {
	var texts []literal
	for i := 0; i < len(re.Rune); i += 2 {
		for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
			if len(texts) == maxClassLiterals || r == utf8.RuneError {
				return facts{}
			}
			texts = append(texts, literal{text: string(r), exact: true})
		}
	}
	return exactly(texts)
}

// repeated returns the facts of one or more repetitions of the expression of f.
func repeated(f facts) facts {
	return facts{prefix: inexact(f.prefix), suffix: inexact(f.suffix), inner: inexact(f.inner)}
}

func factsOfRepeat(re *syntax.Regexp) facts {
	f := factsOf(re.Sub[0])
	switch {
	case re.Min == 0:
		return facts{}
	case re.Min != re.Max || re.Min > maxLiteral:
		return repeated(f)
	}
	c := newChain()
	for range re.Min {
		c.add(f)
	}
	return c.facts()
}

func factsOfAlternate(re *syntax.Regexp) facts {
	var all facts
	for i, sub := range re.Sub {
		f := factsOf(sub)
		if i == 0 {
			all = f
			continue
		}
		all = facts{
			exact:  union(all.exact, f.exact),
			prefix: union(all.prefix, f.prefix),
			suffix: union(all.suffix, f.suffix),
			inner:  union(all.inner, f.inner),
		}
	}
	return all
}

// union returns the literals of both lists: a match has one of either.
func union(a, b []literal) []literal {
	if a == nil || b == nil || len(a)+len(b) > maxAlternatives {
		return nil
	}
	return append(a[:len(a):len(a)], b...)
}

// inexact returns the literals for matches that have more around them.
func inexact(list []literal) []literal {
	if list == nil {
		return nil
	}
	out := make([]literal, len(list))
	for i, l := range list {
		l.exact = false
		out[i] = l
	}
	return out
}

// withoutLonger leaves out literals that contain others.
func withoutLonger(list []literal) []literal {
	if list == nil {
		return nil
	}
	out := []literal{}
	for i, l := range list {
		if !slices.ContainsFunc(out, l.contains) && !slices.ContainsFunc(list[i+1:], func(o literal) bool { return len(o.text) < len(l.text) && l.contains(o) }) {
			out = append(out, l)
		}
	}
	return out
}

func (l literal) contains(other literal) bool {
	return l.fold == other.fold && strings.Contains(l.text, other.text)
}

// withFolds adds the characters beyond ASCII that a letter of the literals may
// stand for.
func withFolds(list []literal) []literal {
	var k, s bool
	for _, l := range list {
		k = k || l.fold && strings.Contains(l.text, "k")
		s = s || l.fold && strings.Contains(l.text, "s")
	}
	list = list[:len(list):len(list)]
	if k {
		list = append(list, literal{text: "\u212a"})
	}
	if s {
		list = append(list, literal{text: "\u017f"})
	}
	return list
}
