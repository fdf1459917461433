package linere

// nextMultiline is Next if the text is matched as a whole.
func (s *Searcher) nextMultiline(text []byte, from int) (start, end int, ok bool) {
	s.kept = s.kept[:0]
	if s.re.prefiltered {
		if at, _ := s.candidate(text, from); at < 0 {
			return 0, 0, false
		}
	}
	s.matches(text, from, func(m Span) bool {
		if !ok {
			start = lineStart(text, 0, m.Start)
			end, ok = m.Start, true
		}
		if m.Start > end {
			return false
		}
		if m.End > end || len(s.kept) == 0 { // looking for it each time would take too long in a long line
			end = max(end, lastLine(text, m))
		}
		if len(s.kept) < maxKeptSpans {
			// The newline at the end of a match is no part of its lines.
			s.kept = append(s.kept, Span{m.Start - start, min(m.End, end) - start})
		}
		return true
	})
	// After the last newline there is a line only if there is text.
	return start, end, ok && start < len(text)
}

// lastLine returns the end of the last line that a match touches. One whose
// newline is the last of the match is such a line, but not the one after it.
func lastLine(text []byte, m Span) int {
	if m.End > m.Start && text[m.End-1] == '\n' {
		return m.End - 1
	}
	return lineEnd(text, m.End)
}

// afterCR reports whether at is after the carriage return that ends a line, in
// a text of many lines.
func (re *Regexp) afterCR(text []byte, at int) bool {
	return re.multiline && !re.keepCR && at > 0 && text[at-1] == '\r' && isLineEnd(text, at)
}

func isLineEnd(text []byte, at int) bool { return at == len(text) || text[at] == '\n' }
