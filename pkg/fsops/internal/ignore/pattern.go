package ignore

import (
	"slices"
	"strings"
)

// A pattern is a compiled glob of gitignore(5).
type pattern struct {
	// literal is the whole pattern, unescaped, if plain is set, and its
	// beginning otherwise.
	literal string
	// suffix is the text at the end of the rest of the pattern.
	suffix string
	// middle is the text between two asterisks, if simple is set: what is between literal and
	// suffix is one asterisk then, or two.
	middle string
	// machine matches what follows literal, if the pattern is neither plain nor simple.
	machine       *machine
	plain, simple bool
	// possible is unset if nothing can match, as for an unclosed class.
	possible bool
}

type tokenKind byte

const (
	literalByte tokenKind = iota
	anyByte               // ?
	class                 // [...]
	star                  // *: any bytes but slashes
	starStar              // **: any bytes
	dirs                  // **/: any number of whole directories
)

type token struct {
	kind tokenKind
	b    byte
	set  *byteSet
}

// byteSet is a set of bytes: git matches bytes, not characters.
type byteSet [4]uint64

func (s *byteSet) add(b byte)           { s[b>>6] |= 1 << (b & 63) }
func (s *byteSet) contains(b byte) bool { return s[b>>6]&(1<<(b&63)) != 0 }

func (s *byteSet) addRange(lo, hi byte) {
	for b := int(lo); b <= int(hi); b++ {
		s.add(byte(b))
	}
}

// compile translates a glob to tokens.
func compile(glob string) pattern {
	tokens := make([]token, 0, len(glob))
	for i := 0; i < len(glob); {
		t, next := nextToken(glob, i)
		if next < 0 {
			return pattern{}
		}
		tokens = append(tokens, t)
		i = next
	}
	n := 0
	for n < len(tokens) && tokens[n].kind == literalByte {
		n++
	}
	p := pattern{possible: true, literal: literalOf(tokens[:n]), plain: n == len(tokens)}
	if p.plain {
		return p
	}
	tokens = tokens[n:]
	n = len(tokens)
	for n > 0 && tokens[n-1].kind == literalByte {
		n--
	}
	p.suffix = literalOf(tokens[n:])
	if p.middle, p.simple = middleOf(tokens[:n]); !p.simple {
		p.machine = newMachine(tokens)
	}
	return p
}

// middleOf returns the text between two asterisks, which is empty if there is only one. It
// reports false if the tokens are anything else.
func middleOf(tokens []token) (string, bool) {
	last := len(tokens) - 1
	if tokens[0].kind != star || tokens[last].kind != star {
		return "", false
	}
	middle := tokens[min(1, last):last]
	if slices.ContainsFunc(middle, func(t token) bool { return t.kind != literalByte || t.b == '/' }) {
		return "", false
	}
	return literalOf(middle), true
}

// literalOf returns the text that tokens of literal bytes stand for.
func literalOf(tokens []token) string {
	var text strings.Builder
	for _, t := range tokens {
		text.WriteByte(t.b)
	}
	return text.String()
}

// isSuffix reports whether the pattern matches the names that end with suffix,
// and no others, if they hold no slash.
func (p *pattern) isSuffix() bool {
	return p.simple && p.literal == "" && p.middle == ""
}

// nextToken reads the token at i and says where the next one begins, or -1 if
// the glob can match nothing.
func nextToken(glob string, i int) (token, int) {
	switch glob[i] {
	case '\\':
		if i+1 == len(glob) {
			return token{}, -1
		}
		return token{kind: literalByte, b: glob[i+1]}, i + 2
	case '?':
		return token{kind: anyByte}, i + 1
	case '*':
		return starToken(glob, i)
	case '[':
		set, next := parseClass(glob, i+1)
		return token{kind: class, set: set}, next
	}
	return token{kind: literalByte, b: glob[i]}, i + 1
}

// starToken reads one or more asterisks. Two and more cross slashes only
// where they make up a whole part of the path.
func starToken(glob string, i int) (token, int) {
	end := i
	for end < len(glob) && glob[end] == '*' {
		end++
	}
	rest := glob[end:]
	switch whole := i == 0 || glob[i-1] == '/'; {
	case end-i == 1 || !whole:
		return token{kind: star}, end
	case strings.HasPrefix(rest, "/"):
		return token{kind: dirs}, end + 1
	case rest == "" || strings.HasPrefix(rest, `\/`):
		return token{kind: starStar}, end
	}
	return token{kind: star}, end
}

// match reports whether the pattern matches the whole of s.
func (p *pattern) match(s string) bool {
	if p.plain {
		return s == p.literal
	}
	s, ok := strings.CutPrefix(s, p.literal)
	if !ok || !strings.HasSuffix(s, p.suffix) {
		return false
	}
	if p.simple {
		s = s[:len(s)-len(p.suffix)]
		return strings.Contains(s, p.middle) && !strings.Contains(s, "/")
	}
	return p.machine.match(s)
}
