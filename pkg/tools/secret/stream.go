package secret

import (
	"fmt"
	"io"
	"slices"
)

// Writer redacts what is written to it, and hands it on. It holds back only
// what may be the beginning of a secret: less bytes than the longest has. It
// must be closed, so that these come, too. It is not for concurrent use.
type Writer struct {
	to   io.Writer
	scan scan
	out  []byte
}

// Writer returns a writer that hands on to w.
func (r *Redactor) Writer(w io.Writer) *Writer {
	if r == nil {
		return &Writer{to: w}
	}
	return &Writer{to: w, scan: scan{table: r.table()}}
}

// Format prints nothing of what was written.
func (w *Writer) Format(f fmt.State, _ rune) { io.WriteString(f, "secret.Writer") }

// Held returns how many bytes are held back.
func (w *Writer) Held() int { return len(w.scan.held) }

// FromMiddle says that the text is cut at its beginning, so that what is written
// first may be the end of a secret. From [MinPart] bytes on it is replaced, too.
func (w *Writer) FromMiddle() { w.scan.middle = w.scan.table != nil }

// Redirect has what is handed on from now on go to w.
func (w *Writer) Redirect(to io.Writer) { w.to = to }

// Write hands on the part of p, and of what was held back, that can be no
// beginning of a secret. An error is one of the writer below.
func (w *Writer) Write(p []byte) (int, error) {
	if w.scan.table == nil {
		return w.to.Write(p)
	}
	return len(p), w.hand(p, false)
}

// Close hands on what was held back. It does not close the writer below.
func (w *Writer) Close() error {
	if w.scan.table == nil {
		return nil
	}
	return w.hand(nil, true)
}

func (w *Writer) hand(p []byte, last bool) error {
	w.out = w.scan.next(w.out[:0], p, last)
	if len(w.out) == 0 {
		return nil
	}
	_, err := w.to.Write(w.out)
	return err
}

// scan finds the secrets in a text that comes in pieces.
type scan struct {
	table *table
	// held is the end of the text so far, which may be the beginning of a
	// secret. Its first bytes, so many as covered says, belong to secrets that
	// were found before.
	held    []byte
	covered int
	// markers are those that stand for the secrets which cover the present
	// place: each stands there once.
	markers []string
	// middle says that the text may begin within a secret.
	middle bool
}

// next appends to dst what is known of the text with the next piece of it, or
// with last the rest.
func (s *scan) next(dst, piece []byte, last bool) []byte {
	text := piece
	if len(s.held) > 0 {
		text = append(s.held, piece...)
	}
	if s.middle {
		dst = s.enter(dst, text, last)
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
		if !last && s.table.longer(text[at:]) != nil {
			break
		}
		if p := s.table.match(text[at:]); p != nil && len(p.text) > s.covered {
			dst = s.mark(dst, *p)
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

// enter covers what a text begins with of a secret whose beginning is missing,
// once there is enough of it to be sure.
func (s *scan) enter(dst, text []byte, last bool) []byte {
	tail, sure := s.table.tail(text)
	s.middle = !sure && !last
	if s.middle || len(tail.text) < MinPart {
		return dst
	}
	return s.mark(dst, tail)
}

// mark begins or extends a place that secrets cover.
func (s *scan) mark(dst []byte, p pattern) []byte {
	if s.covered == 0 {
		s.markers = s.markers[:0]
	}
	s.covered = len(p.text)
	if slices.Contains(s.markers, p.marker) {
		return dst
	}
	s.markers = append(s.markers, p.marker)
	return append(dst, p.marker...)
}
