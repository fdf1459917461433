package render

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Terminal says whether output goes to a terminal. A terminal obeys escape
// sequences, so names and text of a sandbox are escaped there. Anywhere else they
// are printed unchanged.
type Terminal bool

// IsTerminal returns whether w is a terminal.
func IsTerminal(w io.Writer) Terminal {
	file, ok := w.(*os.File)
	return Terminal(ok && term.IsTerminal(int(file.Fd())))
}

// Name returns the printed form of a name. On a terminal it is quoted as in Go if
// it has characters that are not printable or would break the line.
func (t Terminal) Name(name string) string {
	if !bool(t) || printable(name) {
		return name
	}
	return strconv.Quote(name)
}

func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) < 0
}

// Text returns the printed form of lines of text. On a terminal, control characters
// and bytes that are not UTF-8 are escaped as in Go. Tabs and the ends of lines
// stay.
func (t Terminal) Text(text []byte) []byte {
	if !t {
		return text
	}
	return t.appendText(nil, text)
}

// appendText appends the result of [Terminal.Text].
func (t Terminal) appendText(dst, text []byte) []byte {
	if !t {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\x`+strconv.FormatUint(uint64(text[0]), 16)...)
		case r == '\n' || r == '\t' || strconv.IsGraphic(r) || bytes.HasPrefix(text, []byte("\r\n")):
			dst = append(dst, text[:size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			dst = append(dst, quoted[1:len(quoted)-1]...)
		}
		text = text[size:]
	}
	return dst
}
