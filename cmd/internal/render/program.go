package render

import (
	"io"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	// maxColor is the length of the longest colors that are shown: two as red, green and
	// blue take 40 bytes, and all attributes fit, too.
	maxColor = 64
	// pieceSize is how much of a text is escaped at once: enough that system calls do not
	// matter, and no more than a terminal takes in some milliseconds.
	pieceSize = 32 << 10
	escape    = 0x1b
)

// ProgramText returns a writer for what a program in a sandbox prints, or for the content
// of a file; end must be called after the last write. Unless out is a terminal, or raw is
// set, the writer is out itself.
//
// On a terminal, text shows line feeds, carriage returns, tabs, backspaces, and colors
// and other attributes of characters (SGR). The worst that these can do is hide text, or
// overwrite it within its line. Everything else that controls a terminal is escaped as in
// Go: other control characters, as bytes and as U+0080 to U+009F, and bytes that are not
// UTF-8; and characters that reorder the text around them (Bidi_Control in Unicode), because
// the text would read as another one than it is.
func ProgramText(out io.Writer, raw bool) (w io.Writer, end func() error) {
	if raw || !bool(IsTerminal(out)) {
		return out, func() error { return nil }
	}
	text := &programText{to: out}
	return text, text.end
}

// programText is the writer for terminals. However the text is cut into writes, it
// shows the same.
type programText struct {
	to    io.Writer
	shown []byte // room for a piece
	// held is the end of the text so far, if it is the beginning of a character or of a
	// color: fewer than maxColor bytes.
	held    []byte
	colored bool // the last color was not the default
}

func (w *programText) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, pieceSize) {
		if err := w.write(piece, false); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// end shows what is held, and ends colors: they would go on with what others print.
func (w *programText) end() error {
	return w.write(nil, true)
}

func (w *programText) write(piece []byte, last bool) error {
	text := piece
	if len(w.held) > 0 {
		text = append(w.held, piece...)
	}
	w.shown = w.shown[:0]
	w.held = append(w.held[:0], w.show(text, last)...)
	if last && w.colored {
		w.shown, w.colored = append(w.shown, colorEnd...), false
	}
	if len(w.shown) == 0 {
		return nil
	}
	_, err := w.to.Write(w.shown)
	return err
}

// show appends what is shown of a text. It returns the rest, which may become a character
// or a color with more text, unless this is the last.
func (w *programText) show(text []byte, last bool) (rest []byte) {
	for {
		n := harmless(text)
		w.shown = append(w.shown, text[:n]...)
		if text = text[n:]; len(text) == 0 {
			return nil
		}
		size, cut := color(text)
		switch {
		case !last && (cut || !utf8.FullRune(text)):
			return text
		case size > 0:
			w.shown = append(w.shown, text[:size]...)
			w.colored = !isDefault(text[:size])
		default:
			r, n := utf8.DecodeRune(text)
			w.shown, size = appendEscaped(w.shown, r, text[:n]), n
		}
		text = text[size:]
	}
}

// harmless returns the length of the beginning of a text that can be shown.
func harmless(text []byte) int {
	for i := 0; i < len(text); {
		if c := text[i]; c < utf8.RuneSelf {
			if !shownASCII[c] {
				return i
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || !isShown(r) {
			return i
		}
		i += size
	}
	return len(text)
}

// shownASCII are the characters of ASCII that are shown.
var shownASCII = func() (shown [utf8.RuneSelf]bool) {
	for c := range shown {
		shown[c] = c >= ' ' && c != 0x7f
	}
	for _, c := range "\n\r\t\b" {
		shown[c] = true
	}
	return shown
}()

// isShown reports whether a character beyond ASCII is shown.
func isShown(r rune) bool {
	switch {
	case r < 0xa0:
		return false
	case r < 0x061c || r > 0x2069: // most texts
		return true
	}
	return !unicode.Is(unicode.Bidi_Control, r)
}

// color returns the length of the color at the beginning of a text, 0 if there is none.
// If it is cut, there may be one with more text.
func color(text []byte) (size int, cut bool) {
	const begin = "\x1b["
	n := min(len(text), len(begin))
	if string(text[:n]) != begin[:n] {
		return 0, false
	}
	for ; n < min(len(text), maxColor); n++ {
		switch c := text[n]; {
		case c == 'm':
			return n + 1, false
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0, false
		}
	}
	return 0, n < maxColor
}

// isDefault reports whether a color ends all others.
func isDefault(color []byte) bool {
	return string(color) == "\x1b[m" || string(color) == colorEnd
}
