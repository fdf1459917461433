package console

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A modeWriter passes a program's output on to the terminal, unchanged, and notes which
// of the terminal's modes it changes. A program that is left running does not undo these
// changes. The shell would then have no cursor, or get each movement of the mouse as
// input.
type modeWriter struct {
	to     io.Writer
	state  modeState
	params []byte       // of the control sequence under way
	modes  map[int]bool // as they were set
	keypad bool         // application keypad
	other  bool         // modifyOtherKeys of xterm
	kitty  int          // how many of kitty's keyboard modes were pushed
}

type modeState int

const (
	inText modeState = iota
	afterEscape
	inSequence
)

// maxParams bounds the parameters of a noted sequence, in bytes: longer ones set
// colors, or are not sequences.
const maxParams = 64

// privateModes are the DEC private modes that programs set for themselves, as
// xterm's ctlseqs.ms lists them: ESC [ ? number h sets one, and l resets it. The
// screens come last, because the other modes must be reset on the screen that is
// shown.
var privateModes = []int{
	1, 5, 6, wraps, showsCursor, // cursor keys, reverse video, origin
	9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, // the mouse, and focus
	2004, 2026, // bracketed paste, synchronized output
	47, 1047, 1049, // the alternate screen
}

// These modes are normally set. All others are not.
const (
	wraps       = 7
	showsCursor = 25
)

const escape = 0x1b

func newModeWriter(to io.Writer) *modeWriter {
	return &modeWriter{to: to, modes: map[int]bool{}}
}

func (w *modeWriter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; rest = rest[1:] {
		if w.state == inText { // most text changes nothing
			at := bytes.IndexByte(rest, escape)
			if at < 0 {
				break
			}
			rest = rest[at:]
		}
		w.note(rest[0])
	}
	return w.to.Write(p)
}

// note follows the sequences ESC [ params final, and those of one character.
func (w *modeWriter) note(b byte) {
	switch {
	case b == escape:
		w.state, w.params = afterEscape, w.params[:0]
	case w.state == afterEscape:
		w.single(b)
	case w.state == inSequence && b >= 0x20 && b < 0x40:
		if w.params = append(w.params, b); len(w.params) > maxParams {
			w.state = inText
		}
	case w.state == inSequence && b >= 0x40:
		w.state = inText
		w.sequence(string(w.params), b)
	}
}

// single notes a sequence of one character, or begins a longer one.
func (w *modeWriter) single(b byte) {
	w.state = inText
	switch b {
	case '[':
		w.state = inSequence
	case '=', '>':
		w.keypad = b == '='
	case 'c': // a full reset
		clear(w.modes)
		w.keypad, w.other, w.kitty = false, false, 0
	}
}

// sequence notes what a control sequence sets.
func (w *modeWriter) sequence(params string, final byte) {
	switch {
	case strings.HasPrefix(params, "?") && (final == 'h' || final == 'l'):
		for p := range strings.SplitSeq(params[1:], ";") {
			if n, err := strconv.Atoi(p); err == nil && slices.Contains(privateModes, n) {
				w.modes[n] = final == 'h'
			}
		}
	case (params == ">4" || strings.HasPrefix(params, ">4;")) && final == 'm':
		w.other = strings.Trim(params, ">4;0") != ""
	case strings.HasPrefix(params, ">") && final == 'u':
		w.kitty++
	case strings.HasPrefix(params, "<") && final == 'u':
		n, err := strconv.Atoi(params[1:])
		if err != nil {
			n = 1
		}
		w.kitty = max(w.kitty-n, 0)
	}
}

// reset undoes the noted changes.
func (w *modeWriter) reset() error {
	var out strings.Builder
	out.WriteString("\x1b[m\x1b7\x1b[r\x1b8") // the colors, and the margins without moving the cursor
	if w.keypad {
		out.WriteString("\x1b>")
	}
	if w.other {
		out.WriteString("\x1b[>4m")
	}
	if w.kitty > 0 {
		fmt.Fprintf(&out, "\x1b[<%du", w.kitty)
	}
	for _, n := range privateModes {
		normal := n == wraps || n == showsCursor
		if set, changed := w.modes[n]; changed && set != normal {
			fmt.Fprintf(&out, "\x1b[?%d%c", n, map[bool]byte{true: 'h', false: 'l'}[normal])
		}
	}
	_, err := io.WriteString(w.to, out.String())
	return err
}
