package linere

// nextByCandidates is Next for a pattern with literals or a run: it looks only at
// lines that have one. If these are too many lines, the automaton searches all
// lines for a while.
func (s *Searcher) nextByCandidates(text []byte, from int) (start, end int, ok bool) {
	for from < len(text) {
		if s.inVain > minInVain+s.searched/maxInVain {
			chunk := lineEnd(text, min(from+dfaChunk, len(text)))
			if start, end, ok = s.nextByDFA(text[:chunk], from); ok {
				s.count(end-from, 0)
				return start, end, true
			}
			s.count(chunk-from, 0)
			from = chunk + 1
			continue
		}
		at, exact := s.candidate(text, from)
		if at < 0 {
			s.count(len(text)-from, 0)
			return 0, 0, false
		}
		start, end = lineStart(text, from, at), lineEnd(text, at)
		if exact || s.matchesLine(text[start:end]) {
			s.count(end-from, 0)
			return start, end, true
		}
		s.count(end-from, end-start)
		from = end + 1
	}
	return 0, 0, false
}

// count counts the bytes that were searched, and those searched in vain.
func (s *Searcher) count(searched, inVain int) {
	s.searched += searched
	s.inVain += inVain
	if s.searched > 4*dfaChunk {
		s.searched /= 2
		s.inVain /= 2
	}
}

// candidate returns where the first literal or run at or after from begins, -1 if
// there is none, and whether it is a match as it is.
func (s *Searcher) candidate(text []byte, from int) (at int, exact bool) {
	switch {
	case s.re.run != nil:
		return s.re.run.find(text, from), false
	case s.re.vector != nil:
		return s.re.vector.find(text, from)
	}
	at = -1
	for window := minWindow; from < len(text) && at < 0; window = min(2*window, maxWindow) {
		end := min(from+window, len(text))
		for i := range s.re.needles {
			n := &s.re.needles[i]
			if found := n.find(text, from, end); found >= 0 {
				at, exact, end = found, n.exact, found
			}
		}
		from = end
	}
	return at, exact
}

// matchesLine reports whether a line, which is not empty, matches.
func (s *Searcher) matchesLine(line []byte) bool {
	_, _, ok := s.nextByDFA(line, 0)
	return ok
}
