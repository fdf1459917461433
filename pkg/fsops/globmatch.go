package fsops

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A globMatcher tells which paths match a pattern, and which directories a
// match can lie in.
//
// doublestar's Match has the last word on every path. The matcher only follows
// the pattern from part to part, so that a directory without matches is not
// read, and so that it knows which part of the pattern took which name.
type globMatcher struct {
	pattern  string // as doublestar gets it
	noHidden bool
	parts    []globPart
}

// A globPart is what takes one name of a path.
type globPart struct {
	kind partKind
	// glob is the part's own pattern (matchPart).
	glob string
	// dot says that the pattern names a leading dot.
	dot bool
}

type partKind byte

const (
	matchPart    partKind = iota // one name, by glob
	anyPart                      // one name
	optionalPart                 // one name or none
	treePart                     // any number of names: a double asterisk
	endPart                      // the end of one alternative
)

// A globState is the set of parts that may take the next name, in ascending
// order. It is empty where nothing can match any more.
type globState []int

// newGlobMatcher compiles a valid pattern, or that part of it that is relative
// to the directory in front of it.
func newGlobMatcher(pattern string, noHidden bool) *globMatcher {
	m := &globMatcher{pattern: oneRunePerByte(pattern), noHidden: noHidden}
	alternatives := expandBraces(m.pattern)
	if alternatives == nil { // too many to follow: look everywhere
		m.parts = []globPart{{kind: treePart}, {kind: endPart}}
	}
	for _, alternative := range alternatives {
		parts := splitParts(alternative)
		if n := len(parts); parts[n-1] == "" {
			parts = parts[:n-1] // as in "{a/,b}"
		}
		for _, glob := range parts {
			m.addPart(glob)
		}
		m.parts = append(m.parts, globPart{kind: endPart})
	}
	return m
}

// splitParts divides a pattern without braces at its slashes.
func splitParts(pattern string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; pattern[i] == '/' { // an escaped slash is one all the same
				parts = append(parts, pattern[start:i-1])
				start = i + 1
			}
		case '[':
			i = classEnd(pattern, i) - 1
		case '/':
			parts = append(parts, pattern[start:i])
			start = i + 1
		}
	}
	return append(parts, pattern[start:])
}

// addPart adds the parts for what is between two slashes. It is more than one
// where a character class can take a slash too, as doublestar has it for
// "[!a]": then names are taken unseen.
func (m *globMatcher) addPart(glob string) {
	if glob == "**" {
		m.parts = append(m.parts, globPart{kind: treePart})
		return
	}
	if n := slashClasses(glob); n > 0 {
		m.parts = append(m.parts, globPart{kind: anyPart})
		m.parts = append(m.parts, slices.Repeat([]globPart{{kind: optionalPart}}, n)...)
		return
	}
	dot := strings.HasPrefix(strings.TrimPrefix(glob, `\`), ".")
	m.parts = append(m.parts, globPart{kind: matchPart, glob: singleStars(glob), dot: dot})
}

// singleStars makes one of several asterisks in a row, which mean the same
// within a part: doublestar does not let three of them match nothing at the
// end of a name, but does so in front of a slash.
func singleStars(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); i++ {
		start := i
		switch glob[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(glob, i) - 1
		case '*':
			for i+1 < len(glob) && glob[i+1] == '*' {
				i++
				start = i
			}
		}
		b.WriteString(glob[start : i+1])
	}
	return b.String()
}

// slashClasses counts the character classes that match a slash.
func slashClasses(glob string) int {
	n := 0
	for i := 0; i < len(glob); i++ {
		switch glob[i] {
		case '\\':
			i++
		case '[':
			end := classEnd(glob, i)
			if doublestar.MatchUnvalidated(glob[i:end], "/") {
				n++
			}
			i = end - 1
		}
	}
	return n
}

// start returns the state at the directory that the pattern starts in.
func (m *globMatcher) start() globState {
	var s globState
	for i := range m.parts {
		if i == 0 || m.parts[i-1].kind == endPart {
			s = m.add(s, i)
		}
	}
	return s
}

// add puts the part i into s, with those after it if it can take nothing.
func (m *globMatcher) add(s globState, i int) globState {
	for ; ; i++ {
		at, found := slices.BinarySearch(s, i)
		if found {
			return s
		}
		s = slices.Insert(s, at, i)
		if k := m.parts[i].kind; k != treePart && k != optionalPart {
			return s
		}
	}
}

// step returns the state after name, and for a name that is a symbolic link
// the state in the directory that it names: double asterisks do not follow
// links, since these may lead round in circles.
func (m *globMatcher) step(s globState, name string) (next, linked globState) {
	name = oneRunePerByte(name)
	hidden := m.noHidden && strings.HasPrefix(name, ".")
	for _, i := range s {
		part := m.parts[i]
		if part.kind == endPart || hidden && !part.dot || part.kind == matchPart && !doublestar.MatchUnvalidated(part.glob, name) {
			continue
		}
		if part.kind == treePart {
			next = m.add(next, i)
		} else {
			next = m.add(next, i+1)
			linked = m.add(linked, i+1)
		}
	}
	return next, linked
}

// accepts reports whether the path that led to the state matches.
func (m *globMatcher) accepts(s globState, rel string) bool {
	for _, i := range s {
		if m.parts[i].kind == endPart {
			return doublestar.MatchUnvalidated(m.pattern, oneRunePerByte(rel))
		}
	}
	return false
}

// descends reports whether a longer path can match.
func (m *globMatcher) descends(s globState) bool {
	return slices.ContainsFunc(s, func(i int) bool { return m.parts[i].kind != endPart })
}

// acceptsNothing reports whether the pattern matches the directory that it
// starts in, as "a/**" matches a.
func (m *globMatcher) acceptsNothing(s globState) bool {
	return slices.ContainsFunc(s, func(i int) bool { return m.parts[i].kind == endPart }) &&
		doublestar.MatchUnvalidated("x/"+m.pattern, "x")
}
