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
	plain   bool
	// suffix is the text at the end of the tokens, the rest of the pattern.
	suffix string
	// simple is set if what is between literal and suffix is one asterisk, or two with
	// middle between them. There are no tokens then.
	simple bool
	middle string
	// possible is unset if nothing can match, as for an unclosed class.
	possible bool
	tokens   []token
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
	p.tokens = slices.Clone(tokens[n:]) // without room for more
	n = len(p.tokens)
	for n > 0 && p.tokens[n-1].kind == literalByte {
		n--
	}
	p.suffix = literalOf(p.tokens[n:])
	p.simplify(p.tokens[:n])
	return p
}

// simplify makes the pattern a simple one if the tokens between literal and suffix allow it.
func (p *pattern) simplify(tokens []token) {
	last := len(tokens) - 1
	if tokens[0].kind != star || tokens[last].kind != star {
		return
	}
	middle := tokens[min(1, last):last]
	if slices.ContainsFunc(middle, func(t token) bool { return t.kind != literalByte || t.b == '/' }) {
		return
	}
	p.simple, p.middle, p.tokens = true, literalOf(middle), nil
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

// match reports whether the pattern matches the whole of s. It backtracks to the
// latest single asterisk, and from there to the latest double one, but to none
// before: an earlier asterisk could only take more, which leaves less for the later
// ones.
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
	m := matcher{tokens: p.tokens, s: s, star: retry{at: -1}, starStar: retry{at: -1}}
	return m.run()
}

type matcher struct {
	tokens         []token
	s              string
	i, t           int // positions in s and tokens
	star, starStar retry
	dirs           bool // starStar is a dirs token
}

// retry says how an asterisk can take more: up to at. Then the match goes on at the
// token t.
type retry struct{ at, t int }

func (m *matcher) run() bool {
	for {
		if m.t == len(m.tokens) {
			if m.i == len(m.s) {
				return true
			}
		} else if m.step() {
			continue
		}
		if !m.backtrack() {
			return false
		}
	}
}

// step matches one token at the present position.
func (m *matcher) step() bool {
	t := &m.tokens[m.t]
	switch t.kind {
	case star:
		m.t++
		m.star = retry{m.i, m.t}
		return true
	case starStar, dirs:
		m.t++
		m.star.at = -1
		m.starStar, m.dirs = retry{m.i, m.t}, t.kind == dirs
		return true
	}
	if m.i == len(m.s) || !t.matchByte(m.s[m.i]) {
		return false
	}
	m.i++
	m.t++
	return true
}

func (t *token) matchByte(b byte) bool {
	switch t.kind {
	case literalByte:
		return b == t.b
	case class:
		return b != '/' && t.set.contains(b)
	}
	return b != '/'
}

// backtrack lets the latest asterisk take more.
func (m *matcher) backtrack() bool {
	if at := m.star.at; at >= 0 && at < len(m.s) && m.s[at] != '/' {
		m.star.at++
		m.i, m.t = m.star.at, m.star.t
		return true
	}
	m.star.at = -1
	at := m.starStar.at
	if at < 0 || at >= len(m.s) {
		return false
	}
	if m.dirs {
		slash := strings.IndexByte(m.s[at:], '/')
		if slash < 0 {
			return false
		}
		at += slash
	}
	m.starStar.at = at + 1
	m.i, m.t = m.starStar.at, m.starStar.t
	return true
}
