package secret

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
)

// Redactor replaces secrets in texts by [REDACTED:NAME]. At each place it replaces
// the longest match. If secrets overlap, all of them are replaced, and the names of
// all appear. A nil Redactor replaces nothing. It may be used concurrently.
type Redactor struct {
	// table is a function, so that package fmt cannot print it.
	table func() *table
}

// table has the patterns to replace.
type table struct {
	patterns []pattern  // the longest first
	first    [256][]int // by first byte, indexes of patterns, the longest first
	// pairs has a bit for the first two bytes of each pattern, to skip most places
	// of a text fast.
	pairs   [1 << 16 / 64]uint64
	longest int // the length of the longest pattern
}

// pattern is a text to replace by a marker.
type pattern struct{ text, marker string }

// Marker returns the placeholder of the secret with this name.
func Marker(name string) string { return "[REDACTED:" + name + "]" }

// NewRedactor returns a redactor for the secrets of all sets, nil if there are
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

// RedactHead is [Redactor.Redact] for the beginning of a longer text. It also
// replaces the part of a secret that was cut at the end, if it has at least
// [MinPart] bytes.
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

// Finds reports whether data contains a secret.
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

// Error returns err itself if its text contains no secret. Otherwise it returns an
// error with the text redacted: errors.Is works as for err, but errors.As finds
// nothing in it.
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

// redactedError keeps the original error in a function, so that package fmt cannot
// print it.
type redactedError struct {
	text string
	is   func(error) bool
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return e.is(target) }

// plain returns the number of bytes before the first place in text where a pattern
// may begin.
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

// match returns the longest pattern at the beginning of text, nil if none.
func (t *table) match(text []byte) *pattern {
	for _, i := range t.first[text[0]] {
		if p := &t.patterns[i]; len(p.text) <= len(text) && string(text[:len(p.text)]) == p.text {
			return p
		}
	}
	return nil
}

// longer returns the longest pattern that begins with text and is longer than it,
// nil if none.
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

// tail returns the longest end of a pattern at the beginning of text, or the part
// of it that text has. It is not sure if more text may show a different one.
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
