package proc

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
)

// screen follows the output of a terminal. It knows where a replay must begin in order to
// draw the terminal's present screen.
//
// The replay begins at the last full clear: a clear of the screen (ED 2 or 3, or ED 0
// right after the cursor went home), a reset (RIS), or the switch to the alternate
// screen, which full-screen programs draw on. On the alternate screen it begins with
// the switch, unless that is too far back: then a clear counts, too. If there is none
// within replayScreen bytes of the end, the replay begins with the first line in
// there, or where the alternate screen was left.
//
// Programs set some modes once at their start, which the replay may lack: the
// alternate screen, the form of keys, the mouse, bracketed paste, the hidden cursor.
// A prelude sets these. It does not restore colours, character sets, margins, and key
// protocols that are no private mode: a program sets them itself when it draws again, as
// after a change of size. screen ignores sequences with 8-bit controls, because these
// are not valid in UTF-8.
type screen struct {
	// modes are the private modes that differ from a new terminal's, in the
	// order in which they were changed.
	modes []privateMode
	// keypad says that the keypad sends sequences of its own (DECKPAM), since
	// the offset keypadAt.
	keypad   bool
	keypadAt int64

	// These are offsets of the last events, -1 if there was none: cleared of a clear of
	// the main screen, entered of the switch to the alternate screen, wiped of a clear
	// of that, and left of the switch back. entered is -1 on the main screen.
	cleared, entered, wiped, left int64
	// lines are the first starts of a line in each of the last blocks of
	// screenBlock bytes, by the block's number modulo their count.
	lines [replayScreen/screenBlock + 1]int64

	parser sequence
	// run is the offset at which the last run of sequences that go home or clear began;
	// until is where the run ends, and home says that it went home.
	run, until int64
	home       bool
}

// privateMode is a mode of DECSET, as it was set or reset at an offset.
type privateMode struct {
	number int
	set    bool
	at     int64
}

// restoredModes are the private modes that are restored, and whether they are
// set in a new terminal. https://invisible-island.net/xterm/ctlseqs/ctlseqs.html
var restoredModes = map[int]bool{
	1:    false, // application cursor keys
	7:    true,  // wrap at the margin
	25:   true,  // the cursor is visible
	1000: false, // report presses of the mouse
	1002: false, // and drags
	1003: false, // and movement
	1004: false, // report focus
	1005: false, // in UTF-8
	1006: false, // in decimals
	1007: false, // the wheel sends cursor keys
	1015: false, // in decimals, as urxvt does
	1016: false, // in pixels
	2004: false, // bracketed paste
}

func newScreen() *screen {
	return &screen{cleared: -1, entered: -1, wiped: -1, left: -1, run: -1, until: -1}
}

// observe takes note of output: b, which begins at offset. The pieces follow
// each other, and may be cut anywhere.
func (s *screen) observe(offset int64, b []byte) {
	s.noteLines(offset, b)
	for i := 0; i < len(b); i++ {
		if s.parser.idle() {
			next := bytes.IndexByte(b[i:], escape)
			if next < 0 {
				return
			}
			i += next
		}
		if s.parser.feed(offset+int64(i), b[i]) {
			s.apply(s.parser.start, offset+int64(i)+1)
		}
	}
}

// noteLines notes the first start of a line in each block.
func (s *screen) noteLines(offset int64, b []byte) {
	for len(b) > 0 {
		n := min(int64(len(b)), screenBlock-offset%screenBlock)
		if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
			at := offset + int64(i) + 1
			slot := &s.lines[offset/screenBlock%int64(len(s.lines))]
			if *slot <= offset-offset%screenBlock {
				*slot = at
			}
		}
		offset += n
		b = b[n:]
	}
}

// apply takes note of the sequence in the parser, from start to end.
func (s *screen) apply(start, end int64) {
	p := &s.parser
	if start != s.until || s.run < 0 {
		s.run, s.home = start, false
	}
	s.until = end
	switch {
	case p.is("H") || p.is("1;1H") || p.is(";H") || p.is("f") || p.is("1;1f"):
		s.home = true
		return
	case p.is("2J") || p.is("3J") || s.home && (p.is("J") || p.is("0J")):
		s.clear(s.run)
		return
	}
	s.run = -1
	switch text := string(p.text); {
	case text == "c":
		*s = screen{cleared: start, entered: -1, wiped: -1, left: -1, run: -1, lines: s.lines}
	case text == "=" || text == ">":
		s.keypad, s.keypadAt = text == "=", start
	case strings.HasPrefix(text, "[?") && strings.HasSuffix(text, "h"):
		s.setModes(text[2:len(text)-1], true, start)
	case strings.HasPrefix(text, "[?") && strings.HasSuffix(text, "l"):
		s.setModes(text[2:len(text)-1], false, start)
	}
}

func (s *screen) clear(at int64) {
	if s.entered >= 0 {
		s.wiped = at
	} else {
		s.cleared = at
	}
}

// setModes takes note of a change of private modes.
func (s *screen) setModes(list string, set bool, at int64) {
	for text := range strings.SplitSeq(list, ";") {
		n, err := strconv.Atoi(text)
		if err != nil {
			continue
		}
		if usual, restored := restoredModes[n]; restored {
			s.modes = slices.DeleteFunc(s.modes, func(m privateMode) bool { return m.number == n })
			if set != usual {
				s.modes = append(s.modes, privateMode{n, set, at})
			}
		}
		if n == 47 || n == 1047 || n == 1049 {
			s.alternate(set, at)
		}
	}
}

// alternate takes note of a switch of screens.
func (s *screen) alternate(on bool, at int64) {
	switch {
	case on && s.entered < 0:
		s.entered, s.wiped = at, -1
	case !on && s.entered >= 0:
		s.entered, s.left = -1, at
	}
}

// start is the offset from which to replay the output kept between two offsets, and a
// prelude to send first, instead of the same number of bytes before the offset. The
// prelude is nil where none is needed.
func (s *screen) start(kept, end int64) (offset int64, prelude []byte) {
	offset = max(kept, s.from(max(0, end-replayScreen)))
	prelude = s.prelude(offset)
	if offset < int64(len(prelude)) {
		return kept, nil // a replay from the very start lacks nothing
	}
	return offset, prelude
}

// from is the offset of the replay, but not before first.
func (s *screen) from(first int64) int64 {
	last := []int64{s.cleared, s.left}
	if s.entered >= 0 {
		last = []int64{s.entered, s.wiped}
	}
	for _, at := range last {
		if at >= first {
			return at
		}
	}
	if first == 0 {
		return 0
	}
	line := int64(-1)
	for _, at := range s.lines {
		if at >= first && (line < 0 || at < line) {
			line = at
		}
	}
	if line >= 0 {
		return line
	}
	return first
}

// prelude restores the modes that a replay from the offset lacks.
func (s *screen) prelude(offset int64) []byte {
	var b []byte
	if s.entered >= 0 && s.entered < offset {
		b = append(b, "\x1b[?1049h"...)
	}
	for _, m := range s.modes {
		if m.at >= offset {
			continue
		}
		final := byte('l')
		if m.set {
			final = 'h'
		}
		b = append(strconv.AppendInt(append(b, "\x1b[?"...), int64(m.number), 10), final)
	}
	if s.keypad && s.keypadAt < offset {
		b = append(b, "\x1b="...)
	}
	return b
}

// sequence is a parser of escape sequences, as ECMA-48 has them: those that
// begin with ESC [ and end with a letter, and those of ESC and one character.
type sequence struct {
	// start is the offset of its escape, text what follows that.
	start int64
	text  []byte
	open  bool
}

const escape = 0x1b

func (q *sequence) idle() bool { return !q.open }

// is reports whether the sequence is ESC [ followed by text.
func (q *sequence) is(text string) bool {
	return len(q.text) > 0 && q.text[0] == '[' && string(q.text[1:]) == text
}

// feed takes a byte, at its offset, and reports whether it completes a
// sequence.
func (q *sequence) feed(at int64, c byte) bool {
	switch {
	case c == escape:
		q.start, q.text, q.open = at, q.text[:0], true
		return false
	case c == 0x18 || c == 0x1a: // CAN and SUB abandon it
		q.open = false
		return false
	case c < 0x20: // other controls work in between
		return false
	}
	q.text = append(q.text, c)
	switch first := len(q.text) == 1; {
	case first && c == '[':
	case first || c >= 0x40:
		q.open = false
		return true
	case len(q.text) == maxSequence:
		q.open = false
	}
	return false
}
