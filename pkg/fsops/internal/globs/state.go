package globs

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"
)

// A State is how far the names of a path lead in a pattern. It is nil if nothing can
// match any more.
type State struct {
	// parts are those that may take the next name, in ascending order.
	parts []int
	// ends says that the path may match, descends that a longer one may.
	ends, descends bool
	// moves are the moves from here that were made already: a tree's names need few
	// different ones, and looking one up is much faster than making it.
	moves atomic.Pointer[[]move]
}

// A move says where names lead if the same parts take them.
type move struct {
	// taken has a bit for each of parts; a state with more parts than bits remembers no
	// moves.
	taken uint64
	// next is the state after the name. For a symbolic link, linked is the
	// state in the directory that it names: double asterisks do not follow
	// links, since these may lead round in circles.
	next, linked *State
}

// Ends reports whether the path that led here may match: [Matcher.Accepts] decides.
func (s *State) Ends() bool { return s.ends }

// Descends reports whether a longer path may match.
func (s *State) Descends() bool { return s.descends }

// newState returns the state of these parts, nil if there are none.
func (m *Matcher) newState(parts []int) *State {
	if len(parts) == 0 {
		return nil
	}
	s := &State{parts: parts}
	for _, i := range parts {
		if m.parts[i].kind == endPart {
			s.ends = true
		} else {
			s.descends = true
		}
	}
	return s
}

// Start returns the state at the directory that the pattern starts in.
func (m *Matcher) Start() *State {
	var parts []int
	for i := range m.parts {
		if i == 0 || m.parts[i-1].kind == endPart {
			parts = m.add(parts, i)
		}
	}
	return m.newState(parts)
}

// add puts the part i into parts, with those after it if it can take nothing.
func (m *Matcher) add(parts []int, i int) []int {
	for ; ; i++ {
		at, found := slices.BinarySearch(parts, i)
		if found {
			return parts
		}
		parts = slices.Insert(parts, at, i)
		if k := m.parts[i].kind; k != treePart && k != optionalPart {
			return parts
		}
	}
}

// Step returns where a name leads from s; if it is the name of a symbolic link,
// linked is the state in the directory that the link leads to.
func (m *Matcher) Step(s *State, name string) (next, linked *State) {
	name = oneRunePerByte(name)
	if len(s.parts) > 64 {
		made := m.makeMove(s, func(i int) bool { return m.takes(s.parts[i], name) })
		return made.next, made.linked
	}
	var taken uint64
	for i, p := range s.parts {
		if m.takes(p, name) {
			taken |= 1 << i
		}
	}
	var known []move
	if p := s.moves.Load(); p != nil {
		known = *p
	}
	for i := range known {
		if known[i].taken == taken {
			return known[i].next, known[i].linked
		}
	}
	made := m.makeMove(s, func(i int) bool { return taken&(1<<i) != 0 })
	made.taken = taken
	if len(known) < maxMoves {
		all := append(slices.Clip(known), made)
		s.moves.Store(&all) // another goroutine's move may get lost, and is made again
	}
	return made.next, made.linked
}

// takes reports whether the part i takes a name.
func (m *Matcher) takes(i int, name string) bool {
	p := &m.parts[i]
	switch {
	case p.kind == endPart, m.noHidden && !p.dot && strings.HasPrefix(name, "."):
		return false
	case p.kind == matchPart:
		return p.glob.match(name)
	}
	return true
}

// makeMove finds out where names lead if these parts of s take them.
func (m *Matcher) makeMove(s *State, taken func(i int) bool) move {
	var next, linked []int
	for i, p := range s.parts {
		switch {
		case !taken(i):
		case m.parts[p].kind == treePart:
			next = m.add(next, p)
		default:
			next = m.add(next, p+1)
			linked = m.add(linked, p+1)
		}
	}
	return move{next: m.newState(next), linked: m.newState(linked)}
}

// Accepts reports whether the relative path that led to s matches.
func (m *Matcher) Accepts(s *State, rel string) bool {
	return s.ends && (m.plain || doublestar.MatchUnvalidated(m.pattern, oneRunePerByte(rel)))
}

// AcceptsNothing reports whether the pattern matches the directory that it
// starts in, as "a/**" matches a.
func (m *Matcher) AcceptsNothing() bool {
	return m.Start().ends && doublestar.MatchUnvalidated("x/"+m.pattern, "x")
}

// A nameGlob matches one name. For the usual kinds of patterns a comparison is
// enough.
type nameGlob struct {
	pattern string // as doublestar gets it
	// literal says that the pattern is the prefix alone; star, that it is the
	// prefix, one asterisk, and the suffix.
	literal, star  bool
	prefix, suffix string
}

func newNameGlob(pattern string) nameGlob {
	g := nameGlob{pattern: pattern}
	if strings.ContainsAny(pattern, `?[{\`) {
		return g
	}
	g.prefix, g.suffix, g.star = strings.Cut(pattern, "*")
	g.literal = !g.star
	if strings.Contains(g.suffix, "*") {
		g.star = false
	}
	return g
}

func (g *nameGlob) match(name string) bool {
	switch {
	case g.literal:
		return name == g.prefix
	case g.star:
		return len(name) >= len(g.prefix)+len(g.suffix) && strings.HasPrefix(name, g.prefix) && strings.HasSuffix(name, g.suffix)
	}
	return doublestar.MatchUnvalidated(g.pattern, name)
}
