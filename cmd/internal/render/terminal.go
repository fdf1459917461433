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
// sequences, so names and messages of a sandbox are escaped there ([ProgramText] is for
// what programs print). Anywhere else they are printed unchanged.
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
		valid := r != utf8.RuneError || size > 1
		if r == '\n' || r == '\t' || valid && strconv.IsGraphic(r) || bytes.HasPrefix(text, []byte("\r\n")) {
			dst = append(dst, text[:size]...)
		} else {
			dst = appendEscaped(dst, r, text[:size])
		}
		text = text[size:]
	}
	return dst
}

// appendEscaped appends a character, or a byte that is not UTF-8, escaped as in Go.
func appendEscaped(dst []byte, r rune, char []byte) []byte {
	const hex = "0123456789abcdef"
	if r == utf8.RuneError && len(char) == 1 {
		return append(dst, '\\', 'x', hex[char[0]>>4], hex[char[0]&0xf])
	}
	var room [16]byte
	quoted := strconv.AppendQuoteRuneToASCII(room[:0], r)
	return append(dst, quoted[1:len(quoted)-1]...)
}
