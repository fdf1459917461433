package secret

import (
	"fmt"
	"io"
	"slices"
)

// Writer redacts a stream and passes it on. It holds back only bytes that may be
// the beginning of a secret in one of its forms: fewer than the longest form has. Close
// passes these on. A Writer is not for concurrent use.
type Writer struct {
	to   io.Writer
	scan scan
	out  []byte
}

// Writer returns a Writer that passes on to w.
func (r *Redactor) Writer(w io.Writer) *Writer {
	if r == nil {
		return &Writer{to: w}
	}
	return &Writer{to: w, scan: scan{table: r.table()}}
}

// Format prints only the name of the type, no held-back bytes.
func (w *Writer) Format(f fmt.State, _ rune) { io.WriteString(f, "secret.Writer") }

// Held returns how many bytes are held back.
func (w *Writer) Held() int { return len(w.scan.held) }

// FromMiddle says that the text is cut at its beginning, so that it may begin with
// the end of a secret. That end is replaced if it has at least [MinPart] bytes.
func (w *Writer) FromMiddle() { w.scan.middle = w.scan.table != nil }

// Redirect makes the Writer pass on to another writer from now on.
func (w *Writer) Redirect(to io.Writer) { w.to = to }

// Write passes on the bytes held back and p, except for an end that may be the
// beginning of a secret. Its errors are those of the underlying writer.
func (w *Writer) Write(p []byte) (int, error) {
	if w.scan.table == nil {
		return w.to.Write(p)
	}
	return len(p), w.hand(p, goesOn)
}

// Close passes on the bytes held back. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.scan.table == nil {
		return nil
	}
	return w.hand(nil, atEnd)
}

func (w *Writer) hand(p []byte, end textEnd) error {
	w.out = w.scan.next(w.out[:0], p, end)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.to.Write(w.out)
	return err
}

// textEnd says what the end of a piece of text is.
type textEnd int

const (
	goesOn textEnd = iota // more pieces follow
	atEnd                 // the text ends
	atCut                 // the text went on, but was cut
)

// scan finds the secrets in a text that comes in pieces.
type scan struct {
	table *table
	// held is the end of the text so far, which may be the beginning of a secret.
	// Its first covered bytes belong to secrets found before.
	held    []byte
	covered int
	// markers are the markers already written for the secrets that cover the
	// current place. Each is written once.
	markers []string
	// middle says that the text may begin within a secret.
	middle bool
}

// next takes the next piece of the text and appends to dst the redacted text that
// is certain by then; unless the text goes on, all the rest.
func (s *scan) next(dst, piece []byte, end textEnd) []byte {
	text := piece
	if len(s.held) > 0 {
		text = append(s.held, piece...)
	}
	if s.middle {
		dst = s.enter(dst, text, end)
	}
	at := 0
	for at < len(text) && !s.middle {
		if s.covered == 0 {
			plain := s.table.plain(text[at:])
			dst = append(dst, text[at:at+plain]...)
			if at += plain; at == len(text) {
				break
			}
		}
		found, begun := s.table.at(text[at:])
		if begun.size > 0 && end == goesOn {
			break
		}
		if end == atCut && s.table.isPart(begun) {
			return s.mark(dst, begun)
		}
		if found.size > s.covered {
			dst = s.mark(dst, found)
		}
		if s.covered > 0 {
			s.covered--
		} else {
			dst = append(dst, text[at])
		}
		at++
	}
	s.held = append(s.held[:0], text[at:]...)
	return dst
}

// enter redacts the end of a secret at the beginning of a text, once there is
// enough text to be sure.
func (s *scan) enter(dst, text []byte, end textEnd) []byte {
	tail, sure := s.table.tail(text)
	s.middle = !sure && end == goesOn
	if s.middle || tail.size == 0 {
		return dst
	}
	return s.mark(dst, tail)
}

// mark begins or extends a place covered by secrets.
func (s *scan) mark(dst []byte, m match) []byte {
	if s.covered == 0 {
		s.markers = s.markers[:0]
	}
	s.covered = m.size
	marker := s.table.patterns[m.pattern].marker
	if slices.Contains(s.markers, marker) {
		return dst
	}
	s.markers = append(s.markers, marker)
	return append(dst, marker...)
}
