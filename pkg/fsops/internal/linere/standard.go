package linere

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"unicode/utf8"
)

// matches calls yield for the matches in a text that begin at or after from,
// until it returns false. They are those of [regexp.Regexp.FindAll].
func (s *Searcher) matches(text []byte, from int, yield func(Span) bool) {
	for last := -1; from <= len(text); {
		m, ok := s.find(text, from)
		if !ok {
			return
		}
		empty := m.End == m.Start
		if (!empty || m.Start != last && !s.re.afterCR(text, m.End)) && !yield(m) {
			return
		}
		last, from = m.End, m.End
		if empty {
			_, size := utf8.DecodeRune(text[from:])
			from += max(size, 1)
		}
	}
}

// find returns the leftmost match that begins at or after from. The text before
// from counts for ^, \b and their like. If the pattern is nested as deeply as is
// allowed, only the first match of a long line is found: an expression that
// includes the text before would be nested too deeply.
func (s *Searcher) find(text []byte, from int) (Span, bool) {
	skip := bytes.Index(text[from:], s.re.prefix)
	if skip < 0 {
		return Span{}, false
	}
	from += skip
	exp, group, base := s.re.first, s.re.group, from
	if from > 0 && (s.re.beginText || text[from-1] != '\n') {
		_, size := utf8.DecodeLastRune(text[:from])
		group, base = 1, from-size
		if exp, _ = s.re.more(); exp == nil {
			return Span{}, false
		}
	}
	loc := s.submatches(exp, text[base:])
	if loc == nil {
		return Span{}, false
	}
	m := Span{Start: base + loc[2*group], End: base + loc[2*group+1]}
	if m.End > m.Start && s.re.afterCR(text, m.End) {
		m.End--
	}
	return m, true
}

// submatches is [regexp.Regexp.FindSubmatchIndex], but finds nothing if the
// search ends meanwhile. Texts beyond atOnce are too long for the fastest of
// the standard library's machines in any case.
func (s *Searcher) submatches(exp *regexp.Regexp, text []byte) []int {
	switch {
	case len(text) < s.re.shortest:
		return nil
	case len(text) <= s.re.atOnce:
		return exp.FindSubmatchIndex(text)
	}
	loc := exp.FindReaderSubmatchIndex(&input{ctx: s.ctx, rest: text})
	if s.ctx.Err() != nil {
		return nil
	}
	return loc
}

// match reports whether a line matches, false also if the search ends meanwhile.
func (s *Searcher) match(line []byte) bool {
	switch {
	case len(line) < s.re.shortest:
		return false
	case len(line) <= s.re.atOnce:
		return s.re.first.Match(line)
	}
	return s.re.first.MatchReader(&input{ctx: s.ctx, rest: line}) && s.ctx.Err() == nil
}

// An input is a text that ends early if its context does.
type input struct {
	ctx  context.Context
	rest []byte
}

// ReadRune is as in [io.RuneReader]. Checking the context costs little beside the
// standard library's work for each character.
func (in *input) ReadRune() (char rune, size int, err error) {
	if len(in.rest) == 0 || in.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	char, size = utf8.DecodeRune(in.rest)
	in.rest = in.rest[size:]
	return char, size, nil
}
