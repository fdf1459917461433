package secret

import (
	"slices"
	"strings"
)

// maxGap bounds a gap between two characters: a line break and as much indentation as
// openssl prints.
const maxGap = 32

// pattern is a form to replace by a marker.
type pattern struct {
	form
	marker string
	chars  *spellings // of all characters in the text
}

// spellings has the spellings of characters in one dialect.
type spellings struct {
	ascii [128][]string
	more  map[string][]string
	// plain has the characters of ASCII that may be written as themselves.
	plain [256]bool
}

// learn adds the characters of a form.
func (s *spellings) learn(f form) {
	for size := 0; f.text != ""; f.text = f.text[size:] {
		size = f.in.size(f.text)
		if char := f.text[:size]; s.of(char) == nil {
			s.set(char, f.in.spell(char))
		}
	}
}

func (s *spellings) set(char string, spelled []string) {
	if char[0] < 128 {
		s.ascii[char[0]] = spelled
		s.plain[char[0]] = slices.Contains(spelled, char)
	} else {
		s.more[char] = spelled
	}
}

func (s *spellings) of(char string) []string {
	if char[0] < 128 {
		return s.ascii[char[0]]
	}
	return s.more[char]
}

// char returns the spellings of the character at an offset, and the offset of the next.
func (p *pattern) char(at int) (spelled []string, next int) {
	next = at + 1
	if p.text[at] >= 128 {
		next = at + p.in.size(p.text[at:])
	}
	return p.chars.of(p.text[at:next]), next
}

// leads calls add with the beginnings of all spellings: so many characters that they
// have leadSize bytes. They continue what is already begun, with the character at an
// offset.
func (p *pattern) leads(begun string, at int, add func(string)) {
	if len(begun) >= leadSize || at == len(p.text) {
		add(begun)
		return
	}
	spelled, next := p.char(at)
	for _, s := range spelled {
		p.leads(begun+s, next, add)
	}
	for i := range len(p.in.gap) * min(at, 1) {
		p.leads(begun+p.in.gap[i:i+1], at, add)
	}
	if p.in == hexadecimal && at == 1 && len(begun) == 2 {
		for _, digit := range "01234567" {
			add(begun + "\n" + string(digit)) // the next line's address in a dump of od
		}
	}
}

// An ending says how the comparison of a text with a pattern ended.
type ending int

const (
	differs ending = iota
	whole          // the text, or a beginning of it, spells the rest of the pattern
	cut            // all of the text spells a part of the pattern, and more is to come
	open           // whole, but what follows may have to be replaced, too
)

// rest compares a text with the rest of a pattern: head, and the characters from an
// offset on. size is how much of the text is the same.
func (p *pattern) rest(text []byte, head string, at int) (size int, end ending) {
	size, end = begins(text, head)
	lines := false // of a dump
	// A digit or two of a text do not make it the middle of a dump.
	dumped := 1
	if at > 0 {
		dumped = p.in.least
	}
	for end == whole && at < len(p.text) {
		if n := p.same(text[size:], at); n > 0 {
			size, at = size+n, at+n
			continue
		}
		var spelled []string
		var n int
		spelled, at = p.char(at)
		if n, end = p.next(text[size:], spelled); end == differs && p.in == hexadecimal && size >= dumped {
			lines = true
			if n, end = p.nextLine(text[size:], spelled); end == cut {
				return size, cut // what follows may be any text
			}
		}
		size += n
	}
	switch {
	case end == cut:
		size = len(text)
	case end == whole && p.in == hexadecimal && size >= dumped:
		n, end := restOfLine(text[size:], lines)
		return size + n, end
	}
	return size, end
}

// same returns how many characters from an offset on the text has as they are.
func (p *pattern) same(text []byte, at int) int {
	rest := p.text[at:]
	if p.in == exact && len(text) >= len(rest) && string(text[:len(rest)]) == rest {
		return len(rest)
	}
	n := 0
	for n < min(len(rest), len(text)) && rest[n] == text[n] && p.chars.plain[text[n]] {
		n++
	}
	return n
}

// next compares a text with the next character of a pattern, after a gap if there is one.
func (p *pattern) next(text []byte, spelled []string) (size int, end ending) {
	gap := p.gap(text)
	for _, s := range spelled {
		n, end := begins(text[gap:], s)
		if end != differs {
			return gap + n, end
		}
	}
	return 0, differs
}

// nextLine compares a text with the next character of a pattern, in the next line of a
// dump.
func (p *pattern) nextLine(text []byte, spelled []string) (size int, end ending) {
	skipped, end := nextLine(text)
	if end == whole {
		size, end = p.next(text[skipped:], spelled)
	}
	return skipped + size, end
}

// gap returns the length of the gap at the beginning of a text.
func (p *pattern) gap(text []byte) int {
	n := 0
	for p.in.gap != "" && n < min(len(text), maxGap) && strings.IndexByte(p.in.gap, text[n]) >= 0 {
		n++
	}
	return n
}

// begins compares a text with its beginning.
func begins(text []byte, with string) (size int, end ending) {
	n := min(len(text), len(with))
	switch {
	case string(text[:n]) != with[:n]:
		return 0, differs
	case n < len(with):
		return n, cut
	}
	return n, whole
}

// ends calls found for each end of the pattern, but not all of it, that a text begins
// with, until found returns false.
func (p *pattern) ends(text []byte, found func(size int, end ending) bool) bool {
	try := func(head string, at int) bool {
		size, end := p.rest(text, head, at)
		return end == differs || found(size, end)
	}
	for at := 0; at < len(p.text); {
		if at > 0 && !try("", at) {
			return false
		}
		spelled, next := p.char(at)
		for _, s := range spelled {
			for from := 1; from < len(s); from++ {
				if s[from] == text[0] && !try(s[from:], next) {
					return false
				}
			}
		}
		at = next
	}
	return true
}
