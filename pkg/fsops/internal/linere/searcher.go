package linere

import (
	"bytes"
	"context"
)

// A Searcher searches texts, one after the other, for a single goroutine. It uses
// what it learns from one text for the next.
type Searcher struct {
	re  *Regexp
	ctx context.Context
	// dfa is nil before it is needed.
	dfa *dfa
	// searched counts the bytes that were searched for literals, or by the automaton in
	// their stead, and inVain those of lines that had a literal but did not match. Both
	// are halved now and then, so that the past fades.
	searched, inVain int
	// giveUps is how often the automaton gave up.
	giveUps int
	// kept are the matches within the lines that Next returned last, if the
	// pattern is matched against the text as a whole.
	kept []Span
}

// Next returns the beginning and the end of the first line at or after from that
// matches, without its newline. A line begins at from. A text without a newline at its
// end has one line more than newlines; after the last newline there is no line.
//
// With Multiline it returns the lines that the first match touches, and those
// of further matches that begin in them.
func (s *Searcher) Next(text []byte, from int) (start, end int, ok bool) {
	if from >= len(text) {
		return 0, 0, false
	}
	if s.re.multiline {
		return s.nextMultiline(text, from)
	}
	if s.re.prefiltered {
		return s.nextByCandidates(text, from)
	}
	return s.nextByDFA(text, from)
}

// nextByDFA is Next for a pattern without literals or a run.
func (s *Searcher) nextByDFA(text []byte, from int) (start, end int, ok bool) {
	if s.giveUps >= maxGiveUps {
		return s.nextByLine(text, from)
	}
	if s.dfa == nil {
		s.dfa = newDFA(s.ctx, s.re.prog)
	}
	if s.dfa.always {
		return from, lineEnd(text, from), true
	}
	at, out := s.dfa.search(text, from)
	switch out {
	case found:
		return lineStart(text, from, at), lineEnd(text, at), true
	case gaveUp:
		s.giveUps++
		return s.nextByLine(text, lineStart(text, from, at))
	}
	return 0, 0, false
}

// nextByLine is Next with the standard library.
func (s *Searcher) nextByLine(text []byte, from int) (start, end int, ok bool) {
	for from < len(text) && s.ctx.Err() == nil {
		end := lineEnd(text, from)
		if s.match(s.re.trim(text[from:end])) {
			return from, end, true
		}
		from = end + 1
	}
	return 0, 0, false
}

// Spans appends to dst where the matches are in a line that Next returned, the
// first n at most: leftmost ones that do not overlap, as
// [regexp.Regexp.FindAllIndex] gives them. With Word a span is the match
// without the characters beside it. With Multiline they are those of the lines
// that Next returned last.
func (s *Searcher) Spans(dst []Span, line []byte, n int) []Span {
	if s.re.multiline {
		return append(dst, s.kept[:min(max(n, 0), len(s.kept))]...)
	}
	line = s.re.trim(line)
	switch {
	case n <= 0:
	case len(s.re.literal) > 0:
		dst = appendLiterals(dst, line, s.re.literal, n)
	case s.re.word || len(line) > s.re.atOnce:
		s.matches(line, 0, func(m Span) bool {
			dst = append(dst, m)
			n--
			return n > 0
		})
	default:
		for _, loc := range s.re.first.FindAllIndex(line, n) {
			dst = append(dst, Span{Start: loc[0], End: loc[1]})
		}
	}
	return dst
}

// appendLiterals appends where a literal is in a line.
func appendLiterals(dst []Span, line, literal []byte, n int) []Span {
	for at := 0; n > 0; n-- {
		skip := bytes.Index(line[at:], literal)
		if skip < 0 {
			break
		}
		dst = append(dst, Span{Start: at + skip, End: at + skip + len(literal)})
		at += skip + len(literal)
	}
	return dst
}

// lineEnd returns the end of the line that at is in.
func lineEnd(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		return at + n
	}
	return len(text)
}

// lineStart returns the beginning of the line that at is in; a line begins at from.
func lineStart(text []byte, from, at int) int {
	return from + bytes.LastIndexByte(text[from:at], '\n') + 1
}

// trim returns the part of a line that the pattern is matched against.
func (re *Regexp) trim(line []byte) []byte {
	if n := len(line); !re.keepCR && n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
