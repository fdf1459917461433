package secret

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
)

// Redactor replaces secrets in texts by [REDACTED:NAME], the longest that there
// is at each place. Where secrets overlap nothing of them is left: the names of
// all stand there. A nil Redactor replaces nothing. It may be used concurrently.
type Redactor struct {
	// table is behind a function, so that package fmt does not find it.
	table func() *table
}

// table has what is replaced.
type table struct {
	patterns []pattern  // the longest first
	first    [256][]int // by first byte, indexes of patterns, the longest first
	// pairs has a bit for each two bytes that a pattern begins with: most places
	// of a text are passed over by a look at it.
	pairs   [1 << 16 / 64]uint64
	longest int // the length of the longest
}

// pattern is a text that is replaced by the marker.
type pattern struct{ text, marker string }

// Marker returns what stands in a text for the secret of this name.
func Marker(name string) string { return "[REDACTED:" + name + "]" }

// NewRedactor returns the redactor of the secrets of all sets; nil if there are
// none.
func NewRedactor(sets ...*Set) *Redactor {
	t := &table{}
	for _, s := range sets {
		for _, e := range s.all() {
			for _, text := range forms(e.value) {
				t.patterns = append(t.patterns, pattern{text, Marker(e.name)})
			}
		}
	}
	if len(t.patterns) == 0 {
		return nil
	}
	slices.SortStableFunc(t.patterns, func(a, b pattern) int {
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), cmp.Compare(a.text, b.text))
	})
	t.patterns = slices.CompactFunc(t.patterns, func(a, b pattern) bool { return a.text == b.text })
	for i, p := range t.patterns {
		t.first[p.text[0]] = append(t.first[p.text[0]], i)
		pair := uint16(p.text[0])<<8 | uint16(p.text[1])
		t.pairs[pair/64] |= 1 << (pair % 64)
	}
	t.longest = len(t.patterns[0].text)
	return &Redactor{func() *table { return t }}
}

// Redact returns text with the secrets in it replaced.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	s := scan{table: r.table()}
	return string(s.next(make([]byte, 0, len(text)), []byte(text), true))
}

// RedactHead is Redact for the beginning of a longer text, in which what the cut
// left of a secret at the end is replaced, too, from [MinPart] bytes on.
func (r *Redactor) RedactHead(text string) string {
	if r == nil {
		return text
	}
	s := scan{table: r.table()}
	out := s.next(make([]byte, 0, len(text)), []byte(text), false)
	if len(s.held) < MinPart {
		return string(s.next(out, nil, true))
	}
	return string(s.mark(out, *s.table.longer(s.held)))
}

// Finds reports whether there is a secret in data.
func (r *Redactor) Finds(data []byte) bool {
	if r == nil {
		return false
	}
	for _, p := range r.table().patterns {
		if bytes.Contains(data, []byte(p.text)) {
			return true
		}
	}
	return false
}

// Error returns err as it is if there is no secret in its text, else an error
// with the text redacted, which errors.Is takes for err, and in which
// errors.As finds nothing.
func (r *Redactor) Error(err error) error {
	if err == nil || r == nil {
		return err
	}
	text := err.Error()
	redacted := r.Redact(text)
	if redacted == text {
		return err
	}
	return &redactedError{redacted, func(target error) bool { return errors.Is(err, target) }}
}

// redactedError has the error that it stands for in a function, so that package
// fmt does not find it.
type redactedError struct {
	text string
	is   func(error) bool
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return e.is(target) }

// plain returns at how many bytes of text no pattern is, nor begins.
func (t *table) plain(text []byte) int {
	for i := 1; i < len(text); i++ {
		if pair := uint16(text[i-1])<<8 | uint16(text[i]); t.pairs[pair/64]&(1<<(pair%64)) != 0 {
			return i - 1
		}
	}
	if n := len(text); n > 0 && t.first[text[n-1]] != nil {
		return n - 1
	}
	return len(text)
}

// match returns the pattern that text begins with, the longest; nil if there
// is none.
func (t *table) match(text []byte) *pattern {
	for _, i := range t.first[text[0]] {
		if p := &t.patterns[i]; len(p.text) <= len(text) && string(text[:len(p.text)]) == p.text {
			return p
		}
	}
	return nil
}

// longer returns the longest pattern that text is the beginning of, and not all;
// nil if there is none.
func (t *table) longer(text []byte) *pattern {
	if len(text) == 0 || len(text) >= t.longest {
		return nil
	}
	for _, i := range t.first[text[0]] {
		p := &t.patterns[i]
		if len(p.text) <= len(text) {
			return nil // they get shorter from here on
		}
		if p.text[:len(text)] == string(text) {
			return p
		}
	}
	return nil
}

// tail returns the longest end of a pattern that text begins with; if text ends
// before, as far as it goes. It is not sure where more text may show another.
func (t *table) tail(text []byte) (tail pattern, sure bool) {
	sure = true
	for _, p := range t.patterns {
		for from := 1; from+MinPart <= len(p.text); from++ {
			n := min(len(text), len(p.text)-from)
			if p.text[from:from+n] != string(text[:n]) {
				continue
			}
			sure = sure && n == len(p.text)-from
			if n > len(tail.text) {
				tail = pattern{p.text[from : from+n], p.marker}
			}
		}
	}
	return tail, sure
}
