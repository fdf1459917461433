package fsops

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// The marks that a text may begin with.
var (
	utf8Mark    = []byte("\xef\xbb\xbf")
	utf16LEMark = []byte("\xff\xfe")
	utf16BEMark = []byte("\xfe\xff")
)

// decoder returns a reader that gives a text as UTF-8, nil if its beginning,
// after which rest comes, says that it is no UTF-16. What is no valid UTF-16
// becomes U+FFFD.
func decoder(beginning []byte, rest io.Reader) io.Reader {
	order := unicode.LittleEndian
	switch {
	case bytes.HasPrefix(beginning, utf16LEMark):
	case bytes.HasPrefix(beginning, utf16BEMark):
		order = unicode.BigEndian
	default:
		return nil
	}
	beginning = bytes.Clone(beginning[len(utf16LEMark):])
	text := io.MultiReader(bytes.NewReader(beginning), rest)
	return transform.NewReader(text, unicode.UTF16(order, unicode.IgnoreBOM).NewDecoder())
}
