package secret

import (
	"errors"
)

// Redactor replaces secrets in texts by [REDACTED:NAME]. At each place it replaces
// the longest match. If secrets overlap, all of them are replaced, and the names of
// all appear. A nil Redactor replaces nothing. It may be used concurrently.
type Redactor struct {
	// table is a function, so that package fmt cannot print it.
	table func() *table
}

// Marker returns the placeholder of the secret with this name.
func Marker(name string) string { return "[REDACTED:" + name + "]" }

// NewRedactor returns a redactor for the secrets of all sets, nil if there are
// none.
func NewRedactor(sets ...*Set) *Redactor {
	t := newTable(sets)
	if len(t.patterns) == 0 {
		return nil
	}
	return &Redactor{func() *table { return t }}
}

// Redact returns text with the secrets in it replaced.
func (r *Redactor) Redact(text string) string { return r.redact(text, atEnd) }

// RedactHead is [Redactor.Redact] for the beginning of a longer text. It also
// replaces the part of a secret that was cut at the end, if it has at least
// [MinPart] bytes of it.
func (r *Redactor) RedactHead(text string) string { return r.redact(text, atCut) }

func (r *Redactor) redact(text string, end textEnd) string {
	if r == nil {
		return text
	}
	s := scan{table: r.table()}
	return string(s.next(make([]byte, 0, len(text)), []byte(text), end))
}

// Finds reports whether data contains a secret.
func (r *Redactor) Finds(data []byte) bool {
	if r == nil {
		return false
	}
	t := r.table()
	for {
		if data = data[t.plain(data):]; len(data) == 0 {
			return false
		}
		if found, _ := t.at(data); found.size > 0 {
			return true
		}
		data = data[1:]
	}
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
