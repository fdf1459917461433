package fsops

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/bmatcuk/doublestar/v4"
)

// A globState is the set of parts that may take the next name, in ascending
// order. It is nil where nothing can match any more.
type globState struct {
	parts []int
	// ends says that what led here may be a match, descends that a longer path
	// may be one.
	ends, descends bool
	// moves are the moves from here that were made already: few of them lead
	// all names of a tree, and looking one up is much faster than making it.
	moves atomic.Pointer[[]globMove]
}

// A globMove is where names lead that the same parts take.
type globMove struct {
	// taken has a bit for each of parts; a state with more of them than bits
	// remembers no moves.
	taken uint64
	// next is the state after the name. For a symbolic link, linked is the
	// state in the directory that it names: double asterisks do not follow
	// links, since these may lead round in circles.
	next, linked *globState
}

// newState returns the state of these parts, nil if there are none.
func (m *globMatcher) newState(parts []int) *globState {
	if len(parts) == 0 {
		return nil
	}
	s := &globState{parts: parts}
	for _, i := range parts {
		if m.parts[i].kind == endPart {
			s.ends = true
		} else {
			s.descends = true
		}
	}
	return s
}

// start returns the state at the directory that the pattern starts in.
func (m *globMatcher) start() *globState {
	var parts []int
	for i := range m.parts {
		if i == 0 || m.parts[i-1].kind == endPart {
			parts = m.add(parts, i)
		}
	}
	return m.newState(parts)
}

// add puts the part i into parts, with those after it if it can take nothing.
func (m *globMatcher) add(parts []int, i int) []int {
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

// step returns where a name leads.
func (m *globMatcher) step(s *globState, name string) (next, linked *globState) {
	name = oneRunePerByte(name)
	if len(s.parts) > 64 {
		move := m.move(s, func(i int) bool { return m.takes(s.parts[i], name) })
		return move.next, move.linked
	}
	var taken uint64
	for i, part := range s.parts {
		if m.takes(part, name) {
			taken |= 1 << i
		}
	}
	var known []globMove
	if p := s.moves.Load(); p != nil {
		known = *p
	}
	for i := range known {
		if known[i].taken == taken {
			return known[i].next, known[i].linked
		}
	}
	move := m.move(s, func(i int) bool { return taken&(1<<i) != 0 })
	move.taken = taken
	if len(known) < maxGlobMoves {
		all := append(slices.Clip(known), move)
		s.moves.Store(&all) // another goroutine's may get lost, to be made again
	}
	return move.next, move.linked
}

// takes reports whether a part takes a name.
func (m *globMatcher) takes(part int, name string) bool {
	p := &m.parts[part]
	switch {
	case p.kind == endPart, m.noHidden && !p.dot && strings.HasPrefix(name, "."):
		return false
	case p.kind == matchPart:
		return p.glob.match(name)
	}
	return true
}

// move finds out where names lead that are taken by these parts of s.
func (m *globMatcher) move(s *globState, taken func(i int) bool) globMove {
	var next, linked []int
	for i, part := range s.parts {
		switch {
		case !taken(i):
		case m.parts[part].kind == treePart:
			next = m.add(next, part)
		default:
			next = m.add(next, part+1)
			linked = m.add(linked, part+1)
		}
	}
	return globMove{next: m.newState(next), linked: m.newState(linked)}
}

// accepts reports whether the path that led to s matches.
func (m *globMatcher) accepts(s *globState, rel string) bool {
	return s.ends && (m.plain || doublestar.MatchUnvalidated(m.pattern, oneRunePerByte(rel)))
}

// acceptsNothing reports whether the pattern matches the directory that it
// starts in, as "a/**" matches a.
func (m *globMatcher) acceptsNothing() bool {
	return m.start().ends && doublestar.MatchUnvalidated("x/"+m.pattern, "x")
}

// A nameGlob matches one name. The usual kinds of patterns take a comparison.
type nameGlob struct {
	pattern string // as doublestar gets it
	// star says that there is one asterisk between a literal prefix and a
	// literal suffix; literal that there is the prefix alone.
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
