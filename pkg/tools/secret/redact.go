package secret

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// minLine is from how many bytes on a line of a secret with several lines is
// one by itself. Shorter lines are those that many such secrets have, like a
// bracket, or the key of a field.
const minLine = 16

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
	longest  int        // the length of the longest
}

// pattern is a text that is replaced by the marker.
type pattern struct{ text, marker string }

// NewRedactor returns the redactor of the secrets of all sets; nil if there are
// none.
func NewRedactor(sets ...*Set) *Redactor {
	t := &table{}
	for _, s := range sets {
		for _, e := range s.all() {
			for _, text := range forms(e.value) {
				t.patterns = append(t.patterns, pattern{text, "[REDACTED:" + e.name + "]"})
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
	}
	t.longest = len(t.patterns[0].text)
	return &Redactor{func() *table { return t }}
}

// forms returns the texts by which a value is recognized.
func forms(value string) []string {
	all := []string{value}
	for _, html := range []bool{false, true} {
		var escaped bytes.Buffer
		encoder := json.NewEncoder(&escaped)
		encoder.SetEscapeHTML(html)
		if encoder.Encode(value) == nil {
			all = append(all, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(escaped.String()), `"`), `"`))
		}
	}
	for line := range strings.Lines(value) {
		if line = strings.Trim(line, "\r\n"); len(line) >= minLine {
			all = append(all, line)
		}
	}
	return all
}

// Redact returns text with the secrets in it replaced.
func (r *Redactor) Redact(text string) string {
	if r == nil {
		return text
	}
	s := scan{table: r.table()}
	return string(s.next(make([]byte, 0, len(text)), []byte(text), true))
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
	return &redactedError{redacted, err}
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string        { return e.text }
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

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

// mayGrow reports whether text is the beginning of a longer pattern.
func (t *table) mayGrow(text []byte) bool {
	if len(text) >= t.longest {
		return false
	}
	for _, i := range t.first[text[0]] {
		p := &t.patterns[i]
		if len(p.text) <= len(text) {
			return false // they get shorter from here on
		}
		if p.text[:len(text)] == string(text) {
			return true
		}
	}
	return false
}
