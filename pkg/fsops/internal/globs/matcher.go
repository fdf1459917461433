package globs

import (
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// A Matcher tells which paths match a pattern, and which directories a
// match can lie in. It may be used concurrently.
//
// doublestar's Match decides about every path, except for plain patterns. The
// matcher only follows the pattern from part to part: so no directory without
// matches is read, and the part of the pattern that took a name is known.
type Matcher struct {
	pattern  string // as doublestar gets it
	noHidden bool
	parts    []part
	// plain says that following the parts is enough to match.
	plain bool
}

// A part of a pattern takes one name of a path.
type part struct {
	kind partKind
	// glob is the part's own pattern (matchPart).
	glob nameGlob
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

// NewMatcher compiles a valid pattern, or what [Split] leaves of it. With noHidden
// only a part that begins with a dot matches a name that does.
func NewMatcher(pattern string, noHidden bool) *Matcher {
	m := &Matcher{pattern: oneRunePerByte(pattern), noHidden: noHidden}
	// Only doublestar decides what braces and several asterisks mean together.
	m.plain = !strings.ContainsAny(pattern, `{\`)
	alternatives := expand(m.pattern)
	if alternatives == nil { // too many to follow: look everywhere
		m.parts = []part{{kind: treePart}, {kind: endPart}}
	}
	for _, alternative := range alternatives {
		parts := Parts(alternative)
		if n := len(parts); parts[n-1] == "" {
			parts = parts[:n-1] // as in "{a/,b}"
		}
		for _, glob := range parts {
			m.addPart(glob)
		}
		m.parts = append(m.parts, part{kind: endPart})
	}
	return m
}

// Parts divides a valid pattern without braces at its slashes.
func Parts(pattern string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			if i++; pattern[i] == '/' { // an escaped slash is a slash, too
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

// addPart adds the parts for the text between two slashes. It adds more than one if
// a character class can match a slash, as doublestar's "[!a]" does: these parts
// take any name.
func (m *Matcher) addPart(glob string) {
	if glob == "**" {
		// "a*/**" matches ab, but not a: only a double asterisk in front is plain.
		m.plain = m.plain && len(m.parts) == 0
		m.parts = append(m.parts, part{kind: treePart})
		return
	}
	if n := slashClasses(glob); n > 0 {
		m.plain = false
		m.parts = append(m.parts, part{kind: anyPart})
		m.parts = append(m.parts, slices.Repeat([]part{{kind: optionalPart}}, n)...)
		return
	}
	dot := strings.HasPrefix(strings.TrimPrefix(glob, `\`), ".")
	single := singleStars(glob)
	m.plain = m.plain && single == glob && glob != ""
	m.parts = append(m.parts, part{kind: matchPart, glob: newNameGlob(single), dot: dot})
}

// singleStars makes one asterisk of several in a row, which mean the same within a
// part. doublestar does not let three of them match nothing at the end of a name,
// though it does in front of a slash.
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
