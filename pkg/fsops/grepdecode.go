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

// decoder returns a reader that decodes UTF-16 to UTF-8, or nil if the text does not
// begin as UTF-16. The text is beginning, followed by rest. Invalid UTF-16 becomes
// U+FFFD.
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
